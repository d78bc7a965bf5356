"""A stranger's checkpoint: its settings are data, and no more than the value of a known flag."""

import argparse
import copy

import pytest
import torch
from lib.command_line import Flags
from lib.run.checkpoints import read_checkpoint

from fs_plugins.checkpoint_settings import read_settings
from fs_plugins.models.flags import EXLM_FLAGS, option

STRANGE = ("--criterion=ctc", "1 --user-dir=/tmp/x", "--", "${oc.env:HOME}", "@flags", "")
STRANGE += (["--cpu"], {"_name": "ctc"}, torch.zeros(2))


def test_values_of_the_model_are_those_of_its_flags(toy_inputs, tmp_path):
    """They become words of a command."""
    path = toy_inputs / "checkpoints" / "exlm-smiles.pt"
    state, flags = torch.load(path, weights_only=True), read_checkpoint(path).flags
    for name, flag in [(one.name, option(one.name)) for one in EXLM_FLAGS if option(one.name) in flags]:
        for value in STRANGE:
            changed = copy.deepcopy(state)
            vars(changed["cfg"]["model"])[name] = value
            torch.save(changed, tmp_path / "a.pt")
            with pytest.raises(ValueError, match=f"a.pt.*{flag}"):
                read_checkpoint(tmp_path / "a.pt")
    vars(state["cfg"]["model"])["user_dir"] = state["cfg"]["common"]["user_dir"] = "/tmp/x"
    torch.save(state, tmp_path / "a.pt")
    assert read_checkpoint(tmp_path / "a.pt").flags == Flags.of(flags.words()) == flags


def test_names_and_plain_values_of_tasks_and_criteria():
    model = {"_name": "exlm_tiny", "dropout": 0.2, "checkpoint_activations": True}
    groups = {"model": model, "task": {"_name": "masked_lm"}, "criterion": {"_name": "masked_lm"}}
    names = [("task", "translation"), ("criterion", "none"), ("model", "roberta_base"), ("task", 3)]
    for what, name in names:
        with pytest.raises(ValueError, match=f"{name!s}.*supported"):
            read_settings({"cfg": {**groups, what: {"_name": name}}})
    task = {"_name": "masked_lm", "mask_prob": 0.2, "data": torch.zeros(2), "user_dir": "/tmp/x"}
    task["sample_break_mode"] = "${oc.env:HOME}"
    flat = {**task, "arch": "exlm_tiny", "task": "masked_lm", "criterion": "masked_lm"}
    states = {"cfg": {**groups, "task": task}}, {"args": argparse.Namespace(**flat)}
    found = [*map(read_settings, states)]
    assert [one.task for one in found] == [{"_name": "masked_lm", "mask_prob": 0.2}] * 2
    # how a training ran stays with it: whatever loads the model does not compute its layers twice
    assert vars(found[0].model) == {"_name": "exlm_tiny", "arch": "exlm_tiny", "dropout": 0.2}
