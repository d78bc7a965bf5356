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


@pytest.mark.parametrize(
    ("other", "entry"),
    [
        ("c b a", "entry 4 is 'a' in the one and 'c' in the other"),
        ("a b", r"entry 6 is 'c' in the one and '<mask>' in the other"),
        ("a b c d", "entry 7 is '<mask>' in the one and 'd'"),
        ("a <mask> b c", "entry 5 is 'b' in the one and '<mask>'"),  # the ids behind it are others
        ("a b c <mask> d", "entry 8 is missing in the one and 'd'"),
    ],
)
def test_others_are_named_with_their_first_difference(other, entry):
    assert of(other).identity != of("a b c").identity
    with pytest.raises(ValueError, match=rf"a/dict.txt .* and b/dict.txt .*{entry}.*: do that"):
        of("a b c").check(of(other, "b/dict.txt"), "do that")


@pytest.mark.parametrize("content", [b"the 5\nand\n", b"the 5\nthe 4\n", b"\xff 5\n", b"", None])
def test_a_dictionary_that_cannot_be_read(content, tmp_path):
    if content is not None:
        (tmp_path / "dict.txt").write_bytes(content)
    with pytest.raises(ValueError, match="(?s)dict.txt .*: give the dict.txt of the pre-training"):
        read_dictionary(tmp_path)
