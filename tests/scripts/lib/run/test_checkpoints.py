"""What GLUE, SQuAD and MoleculeNet read of a checkpoint before they train, and what they refuse."""

import pytest
from lib.command_line import Flags, UserError
from lib.run.checkpoints import EMBEDDINGS, check_dictionary, read_checkpoint


def dictionary(path, text):
    path.write_text(text)
    return path


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_what_is_read(saved_checkpoint, tmp_path, embedding):
    found = read_checkpoint(saved_checkpoint(embedding=embedding, sizes={"expand_from_layer": 1}))
    assert found.entries == 8  # a, b, c, <s>, <pad>, </s>, <unk> and <mask>
    assert found.dictionary == tmp_path / "data" / "dict.txt"
    flags = "--arch exlm_tiny --encoder-layers 2 --encoder-embed-dim 4 --max-positions 16 --ext-state-num 3 "
    flags += "--encoder-normalize-before --expand-from-layer 1"
    assert found.flags == Flags.of(flags.split(" "))
    seen = (found.repeat, found.expands, found.max_positions, found.task.tokens_per_sample)
    assert seen == (1, True, 16, 12)
    found = read_checkpoint(saved_checkpoint("mlm_tiny", task={"repeat_times": 4}))
    assert "--ext-state-num" not in found.flags and not found.expands and found.repeat == 4


def test_dictionaries_that_are_not_the_checkpoints(saved_checkpoint, tmp_path):
    path = saved_checkpoint()
    check_dictionary(read_checkpoint(path), dictionary(tmp_path / "d", "a 5\nb 4\nc 3\n"), "...")
    for text in ("a 1\nb 1\nc 1\nd 1\n", "a 1\nc 1\nb 1\n", "a 1\nno count\n"):
        with pytest.raises(ValueError, match="/d"):
            check_dictionary(read_checkpoint(path), dictionary(tmp_path / "d", text), "take its own")
    dictionary(path.parent / "dict.txt", "c 1\nb 1\na 1\n")  # the one beside a checkpoint counts
    check_dictionary(read_checkpoint(path), dictionary(tmp_path / "d", "c 1\nb 1\na 1\n"), "...")


@pytest.mark.parametrize("text", ["a 1\nb 1\n", "a 1\na 1\nb 1\n", None])  # shorter, broken, gone
def test_a_folder_that_was_filled_anew_says_nothing(saved_checkpoint, tmp_path, text):
    path, file = saved_checkpoint(), tmp_path / "data" / "dict.txt"
    file.unlink() if text is None else file.write_text(text)
    found = read_checkpoint(path)
    assert found.dictionary is None
    check_dictionary(found, dictionary(tmp_path / "d", "c 1\nb 1\na 1\n"), "...")
    with pytest.raises(UserError, match="5 entries.* 8"):
        check_dictionary(found, dictionary(tmp_path / "d", "<mask> 1\n"), "...")


def test_a_folder_for_transformers_is_read_as_its_checkpoint(checkpoints, folders):
    for kind in ("exlm", "repeated"):
        theirs, ours = read_checkpoint(checkpoints[kind]), read_checkpoint(folders[kind])
        assert theirs.flags.items() <= ours.flags.items() and ours.dictionary == folders[kind]
        for name in ("entries", "repeat", "expands", "max_positions"):
            assert getattr(ours, name) == getattr(theirs, name), name
        for name in ("_name", "tokens_per_sample"):
            assert ours.task[name] == theirs.task[name]
        check_dictionary(ours, theirs.dictionary, "...")
