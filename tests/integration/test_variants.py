"""Models of configs/model, stopped in mid-epoch and resumed."""

import pytest

from tests.integration import commands
from tests.integration.commands import train, variant


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exlm", "repeated-mlm"])
def test_stopped_in_mid_epoch_and_resumed_is_uninterrupted(name, corpus, tmp_path, stopped):
    """To the last bit, with dropout; batches are loaded in this process, by two others, then by one."""
    flags = ["--update-freq", 2, "--dropout", 0.2, "--save-interval-updates", 4, "--max-update", 14]
    whole = train(*variant(name, corpus, tmp_path / "whole", *flags))
    assert whole.updates[8]["epoch"] == 1 and whole.updates[-1]["epoch"] == 2

    with stopped(6):
        train(*variant(name, corpus, tmp_path / "cut", *flags, "--num-workers", 2))
    saved = commands.load_checkpoint(tmp_path / "cut/checkpoint_last.pt")
    assert saved["optimizer_history"][-1]["num_updates"] == 4
    resumed = train(*variant(name, corpus, tmp_path / "cut", *flags, "--num-workers", 1))
    assert list(resumed.losses()) == list(range(5, 15))
    for figure in ("loss", "gnorm", "accuracy" if name == "repeated-mlm" else "bsz"):
        assert resumed.values(figure) == whole.values(figure)[4:], figure
    commands.assert_same_model(*(tmp_path / run / "checkpoint_last.pt" for run in ("whole", "cut")))
