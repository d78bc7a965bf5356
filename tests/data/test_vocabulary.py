"""When two vocabularies are the same, and what is said if not."""

import pytest

from fs_plugins.data.vocabulary import Vocabulary, read_dictionary


def of(words, name="a/dict.txt"):
    return Vocabulary.of(["<s>", "<pad>", "</s>", "<unk>", *words.split()], name)


@pytest.mark.parametrize("text", ["b 1\na 1\n", "b 3\na 2\n<mask> 1\n"])
def test_counts_and_a_last_mask_make_no_difference(text, tmp_path):
    (tmp_path / "dict.txt").write_text(text)
    vocabulary = Vocabulary.read(tmp_path)
    assert vocabulary.symbols == of("b a").symbols and vocabulary.identity == of("b a").identity
    vocabulary.check(of("b a"), "...")


# of the last two the ids behind <mask> are others
@pytest.mark.parametrize("other", ["c b a", "a b", "a b c d", "a <mask> b c", "a b c <mask> d"])
def test_others_are_named(other):
    assert of(other).identity != of("a b c").identity
    with pytest.raises(ValueError, match="a/dict.txt .* and b/dict.txt .*: do that"):
        of("a b c").check(of(other, "b/dict.txt"), "do that")


def test_an_empty_dictionary(tmp_path):
    """With it, all tokens would be unknown."""
    (tmp_path / "dict.txt").write_bytes(b"")
    with pytest.raises(ValueError, match="dict.txt is empty"):
        read_dictionary(tmp_path)
