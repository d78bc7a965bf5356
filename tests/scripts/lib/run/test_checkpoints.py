"""What GLUE, SQuAD and MoleculeNet read of a checkpoint before they train, and what they refuse."""

import pytest
import torch
from lib.command_line import UserError
from lib.run.checkpoints import EMBEDDINGS, check_dictionary, read_checkpoint

from tests.support import builders
from tests.support.builders import write_file


@pytest.fixture
def checkpoint(save_checkpoint, tmp_path):
    """checkpoint() -> the file of a model with the dictionary of a, b and c in tmp_path/data."""
    builders.write_dictionary(tmp_path / "data", "abc")
    about = {"symbols": builders.dictionary("abc"), "data": tmp_path / "data"}
    return lambda: save_checkpoint("exlm_tiny", **about)


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_its_dictionary(checkpoint, tmp_path, embedding):
    """The flags that are read are in recorded commands."""
    state = torch.load(path := checkpoint(), weights_only=False)
    state["model"][embedding] = state["model"].pop(EMBEDDINGS[0])
    torch.save(state, path)
    found = read_checkpoint(path)
    assert found.entries == 8  # a, b, c, <s>, <pad>, </s>, <unk> and <mask>
    assert found.dictionary == tmp_path / "data" / "dict.txt"


def test_dictionaries_that_are_not_the_checkpoints(checkpoint, tmp_path):
    path = checkpoint()
    check_dictionary(read_checkpoint(path), write_file(tmp_path / "d", "a 5\nb 4\nc 3\n"), "...")
    with pytest.raises(ValueError, match="/d"):
        check_dictionary(read_checkpoint(path), write_file(tmp_path / "d", "a 1\nc 1\nb 1\n"), "take its own")
    write_file(path.parent / "dict.txt", "c 1\nb 1\na 1\n")  # the one beside a checkpoint counts
    check_dictionary(read_checkpoint(path), write_file(tmp_path / "d", "c 1\nb 1\na 1\n"), "...")


@pytest.mark.parametrize("text", ["a 1\nb 1\n", "a 1\na 1\nb 1\n", None])  # shorter, broken, gone
def test_a_folder_that_was_filled_anew_says_nothing(checkpoint, tmp_path, text):
    path, file = checkpoint(), tmp_path / "data" / "dict.txt"
    file.unlink() if text is None else file.write_text(text)
    found = read_checkpoint(path)
    check_dictionary(found, write_file(tmp_path / "d", "c 1\nb 1\na 1\n"), "...")
    with pytest.raises(UserError, match="5 entries.* 8"):
        check_dictionary(found, write_file(tmp_path / "d", "<mask> 1\n"), "...")


def test_a_folder_for_transformers_has_its_dictionary(checkpoints, folders):
    """Its settings are compared by tests/huggingface/test_export.py."""
    theirs, ours = read_checkpoint(checkpoints["exlm"]), read_checkpoint(folders["exlm"])
    assert ours.dictionary == folders["exlm"] and ours.entries == theirs.entries
    check_dictionary(ours, theirs.dictionary, "...")
