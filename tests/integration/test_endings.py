"""A run in several calls: resumed by the same command, or left as it is if it has come to its end."""

import json
from unittest import mock

import pytest
import torch
from fairseq.trainer import Trainer

from fs_plugins.files import UNFINISHED
from tests.integration.commands import assert_same_model, pretraining, train, variant
from tests.support import pages

FLAGS = ("--cpu", "--batch-size", 43, "--lr", 2e-2, "--max-epoch", 30, "--patience", 3)
SLOW = pytest.mark.slow


def saved(folder, name="last") -> tuple[int, int]:
    """The updates and the epoch of a checkpoint."""
    state = torch.load(folder / f"checkpoint_{name}.pt")
    return state["optimizer_history"][-1]["num_updates"], state["extra_state"]["train_iterator"]["epoch"]


def test_a_run_at_its_end_stays_as_it_is(corpus, tmp_path):
    """fairseq would train one update more."""
    words = pretraining(corpus, tmp_path, "--max-update", 3)
    train(*words)
    kept = (tmp_path / "checkpoint_last.pt").read_bytes()
    assert not train(*words).updates and (tmp_path / "checkpoint_last.pt").read_bytes() == kept
    assert [*train(*words, "--max-update", 4).losses()] == [4]


def test_a_limit_of_time_is_of_a_call_and_is_noted(corpus, tmp_path):
    words = pretraining(corpus, tmp_path, "--max-update", 3)
    for update in (1, 2):
        assert [*train(*words, "--stop-time-hours", 1e-9).losses()] == [update] == [saved(tmp_path)[0]]
        assert (tmp_path / UNFINISHED).exists()
    train(*words, "--stop-time-hours", 1e-9)  # at its end, too
    assert saved(tmp_path)[0] == 3 and not (tmp_path / UNFINISHED).exists()


@SLOW
def test_without_an_optimizer_a_run_begins_anew_by_intent_alone(corpus, tmp_path):
    words = pretraining(corpus, tmp_path, "--max-update", 3, "--no-save-optimizer-state")
    train(*words)
    assert not train(*words).updates  # has ended
    more = [*words, "--max-update", 5]
    with pytest.raises(ValueError, match="--finetune-from-model and another folder"):
        train(*more)
    assert [*train(*more, "--reset-optimizer").losses()] == [1, 2, 3, 4, 5]


@SLOW
def test_an_early_stop_that_is_interrupted(toy_inputs, stopped, tmp_path):
    """Before validations are counted, while they are, and before the best epoch is scored: it has the best
    epoch and the scores of one that is not."""

    def finetune(save, *flags, **more):
        inputs = ("RTE", toy_inputs / "checkpoints/exlm.pt", toy_inputs / "glue", tmp_path / save)
        pages.run("finetune_glue", *inputs, *FLAGS, *flags, **more)

    def evaluation_is_killed(command, log):
        return pages._run(command, log) if command[0] == "fairseq-train" else 9

    def outcome(save):
        result = json.loads((tmp_path / save / "result.json").read_text())
        return result["metrics"], saved(tmp_path / save, "best")

    kept = ("--keep-best-checkpoints", 2)
    with mock.patch.object(Trainer, "train_step", autospec=True, side_effect=Trainer.train_step) as step:
        finetune("whole", *kept)
    last = step.call_count
    assert last < 30 * 3
    for updates in (2, last - 4, last):
        save = f"{updates}"
        if updates == last:
            with pytest.raises(AssertionError, match="ended with 9"):
                finetune(save, execute=evaluation_is_killed)
        else:
            with stopped(updates):
                finetune(save)
        finetune(save)
        assert outcome(save) == outcome("whole")
    names = {path.name.split("_")[0] for path in (tmp_path / "whole").glob("*.pt")}
    assert names == {"checkpoint", "checkpoint.best"} and not (tmp_path / "whole/checkpoint_last.pt").exists()


@SLOW
@pytest.mark.parametrize("name", ["exlm", "repeated-mlm"])
def test_stopped_in_mid_epoch_and_resumed_is_uninterrupted(name, corpus, tmp_path, stopped):
    """To the last bit, with dropout; batches are loaded in this process, by two others, then by one."""
    flags = ["--update-freq", 2, "--dropout", 0.2, "--save-interval-updates", 4, "--max-update", 14]
    whole = train(*variant(name, corpus, tmp_path / "whole", *flags))
    assert whole.updates[8]["epoch"] == 1 and whole.updates[-1]["epoch"] == 2

    with stopped(6):
        train(*variant(name, corpus, tmp_path / "cut", *flags, "--num-workers", 2))
    assert saved(tmp_path / "cut")[0] == 4
    resumed = train(*variant(name, corpus, tmp_path / "cut", *flags, "--num-workers", 1))
    assert list(resumed.losses()) == list(range(5, 15))
    for figure in ("loss", "gnorm", "accuracy" if name == "repeated-mlm" else "bsz"):
        assert resumed.values(figure) == whole.values(figure)[4:], figure
    assert_same_model(*(tmp_path / run / "checkpoint_last.pt" for run in ("whole", "cut")))
