"""When two vocabularies are the same, and what is said if not."""

import pytest

from fs_plugins.data.vocabulary import Vocabulary, copy_dictionary, read_dictionary
from fs_plugins.huggingface.export import export
from tests.support import builders


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


def test_an_exports_vocabulary_is_that_of_its_training(save_checkpoint, tmp_path):
    """GPT-2's symbols are numbers, also there."""
    data = builders.write_gpt2(tmp_path / "data", [("t", "h"), ("i", "s")])
    words = [str(i) for i in range(256 + 2)]
    builders.write_dictionary(data, words)
    path = save_checkpoint("mlm_tiny", symbols=builders.dictionary(words), data=data)
    folder = export(path, tmp_path / "a")
    copy_dictionary(folder, tmp_path / "dict.txt")
    assert Vocabulary.read(tmp_path).symbols == Vocabulary.read(data).symbols
    Vocabulary.read(data).check(Vocabulary.read(folder), "...")
    builders.write_dictionary(data, words[::-1])
    with pytest.raises(ValueError, match=str(folder)):
        Vocabulary.read(data).check(Vocabulary.read(folder), "...")
