"""Loading checkpoints: what they were trained for, and their dictionary."""

import os
import shutil

import pytest
import torch

from fs_plugins.checkpoint import load
from tests.support import builders


def test_a_relative_data_folder_is_found_above_the_checkpoint(save_checkpoint, tmp_path, corpus):
    state = torch.load(save_checkpoint("exlm_base"))
    state["cfg"]["task"]["data"] = os.path.join("runs", "data-bin")
    folder = tmp_path / "runs" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(state, folder / "checkpoint.pt")
    shutil.copytree(corpus, tmp_path / "runs" / "data-bin")
    assert load(folder / "checkpoint.pt").data == tmp_path / "runs" / "data-bin"
    assert load(folder / "checkpoint.pt", corpus).data == corpus


def test_another_dictionary_of_the_same_size(pretrained, corpus, tmp_path):
    path = shutil.copy(pretrained, tmp_path / "checkpoint_last.pt")
    other = tmp_path / "other"
    builders.write_dictionary(other, builders.WORDS[::-1])
    load(path, other, "cpu")  # there is no record to compare it with
    shutil.copy(corpus / "dict.txt", tmp_path)
    load(path, corpus, "cpu")
    with pytest.raises(ValueError, match="other/dict.txt"):
        load(path, other, "cpu")
