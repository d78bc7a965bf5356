"""Loading checkpoints: what they were trained for, and their dictionary."""

import os
import shutil

import pytest
import torch
from fairseq.criterions import register_criterion
from safetensors.torch import load_file

from fs_plugins.checkpoint import load_checkpoint
from fs_plugins.checkpoint_settings import read_settings
from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from fs_plugins.huggingface.export import export
from fs_plugins.huggingface.restore import open_checkpoint
from fs_plugins.huggingface.weights import TRANSITIONS
from tests.support import builders


def test_transitions_of_a_fine_tuning_are_those_of_its_pre_training(save_checkpoint):
    """Its criterion does not say whether they were trained: with nat_ctc_loss_mlm they were not."""
    for criterion, trained in (("nat_dag_loss_mlm", True), ("nat_ctc_loss_mlm", False), ("masked_lm", False)):
        arch = "p_roberta_base" if criterion == "masked_lm" else "exlm_base"
        assert load_checkpoint(save_checkpoint(arch, criterion=criterion)).has_transitions == trained
    path = save_checkpoint("exlm_base", task="glue", criterion="sentence_prediction")
    assert load_checkpoint(path).has_transitions
    state = torch.load(path)
    state["model"]["encoder.query_linear.bias"].zero_()
    torch.save(state, path)
    assert not load_checkpoint(path).has_transitions


def test_how_a_training_ran_stays_with_it():
    """Whatever loads the model then neither compiles it nor computes its layers twice."""
    switches = dict.fromkeys(("compile", "cuda_graph", "checkpoint_activations"), True)
    groups = {"task": {"_name": "masked_lm"}, "criterion": {"_name": "masked_lm"}}
    read = read_settings({"cfg": {"model": {"_name": "exlm_tiny", "dropout": 0.2, **switches}, **groups}})
    assert vars(read.model) == {"_name": "exlm_tiny", "arch": "exlm_tiny", "dropout": 0.2}


@register_criterion("of_ones_own")
class OfOnesOwn(NatDagLossMLM):
    """A criterion that trains as if there were no transitions."""

    trains_transitions, alignment = False, "ctc"


def test_a_criterion_says_what_it_trains(save_checkpoint, tmp_path):
    path = save_checkpoint("exlm_base", criterion="of_ones_own")
    folder = export(path, tmp_path / "model")
    assert not any(name.startswith(TRANSITIONS) for name in load_file(folder / "model.safetensors"))
    for model in (path, folder):
        loaded = open_checkpoint(model)
        assert (loaded.criterion, loaded.has_transitions, loaded.alignment) == ("of_ones_own", False, "ctc")


def test_a_relative_data_folder_is_found_above_the_checkpoint(save_checkpoint, tmp_path, corpus):
    state = torch.load(save_checkpoint("exlm_base"))
    state["cfg"]["task"]["data"] = os.path.join("runs", "data-bin")
    folder = tmp_path / "runs" / "checkpoints"
    folder.mkdir(parents=True)
    torch.save(state, folder / "checkpoint.pt")
    with pytest.raises(FileNotFoundError, match=r"no dict.txt in runs/data-bin.*--data"):
        load_checkpoint(folder / "checkpoint.pt")
    shutil.copytree(corpus, tmp_path / "runs" / "data-bin")
    assert load_checkpoint(folder / "checkpoint.pt").data == tmp_path / "runs" / "data-bin"
    assert load_checkpoint(folder / "checkpoint.pt", corpus).data == corpus


def test_another_dictionary_of_the_same_size(pretrained, corpus, tmp_path):
    path = shutil.copy(pretrained, tmp_path / "checkpoint_last.pt")
    other = tmp_path / "other"
    builders.write_dictionary(other, builders.WORDS[::-1])
    load_checkpoint(path, other, "cpu")  # there is no record to compare it with
    shutil.copy(corpus / "dict.txt", tmp_path)
    load_checkpoint(path, corpus, "cpu")
    with pytest.raises(ValueError, match="other/dict.txt"):
        load_checkpoint(path, other, "cpu")
