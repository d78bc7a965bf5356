"""Every model of configs/model by fairseq-train, on two workers; some stopped in mid-epoch and resumed."""

import re

import pytest

from tests.integration import commands
from tests.integration.commands import VARIANTS, train, variant

PLAIN = ["--optimizer", "sgd", "--lr", 0.1, "--dropout", 0, "--attention-dropout", 0]
UPDATES = 6
PLAIN += ["--max-update", UPDATES]
RAGGED = ["--batch-size", 5, "--required-batch-size-multiple", 1]  # three batches an epoch


def saved(folder) -> dict:
    return commands.load_checkpoint(folder / "checkpoint_last.pt")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exlm", "exlm-lattice", "repeated-mlm"])
def test_stopped_in_mid_epoch_and_resumed_is_uninterrupted(name, corpus, tmp_path, stopped):
    """To the last bit, with dropout; batches are loaded in this process, by two others, then by one."""
    flags = ["--update-freq", 2, "--dropout", 0.2, "--save-interval-updates", 4, "--max-update", 14]
    whole = train(*variant(name, corpus, tmp_path / "whole", *flags))
    assert whole.updates[8]["epoch"] == 1 and whole.updates[-1]["epoch"] == 2

    with stopped(6):
        train(*variant(name, corpus, tmp_path / "cut", *flags, "--num-workers", 2))
    assert saved(tmp_path / "cut")["optimizer_history"][-1]["num_updates"] == 4
    resumed = train(*variant(name, corpus, tmp_path / "cut", *flags, "--num-workers", 1))
    assert list(resumed.losses()) == list(range(5, 15))
    for figure in ("loss", "gnorm", "accuracy" if name == "repeated-mlm" else "bsz"):
        assert resumed.values(figure) == whole.values(figure)[4:], figure
    commands.assert_same_model(*(tmp_path / run / "checkpoint_last.pt" for run in ("whole", "cut")))


@pytest.fixture(scope="module")
def on_two_workers(corpus, tmp_path_factory):
    """{name: its run, its folder} by torch's DistributedDataParallel, fairseq's default on GPUs, or by the
    scripts' on CPUs."""
    place = tmp_path_factory.mktemp("two")
    train(*variant("exlm", corpus, place / "begun", *PLAIN, "--max-update", 4))  # by one
    flags = {name: variant(name, corpus, place / name, *PLAIN) for name in VARIANTS}
    flags["legacy"] = [*variant("exlm", corpus, place / "legacy", *PLAIN), "--ddp-backend", "legacy_ddp"]
    flags["begun"] = variant("exlm", corpus, place / "begun", *PLAIN)
    flags["ragged"] = variant("exlm", corpus, place / "ragged", *PLAIN, *RAGGED, "--update-freq", 2)
    runs = commands.train_on_two(*flags.values())
    return {name: (run, place / name) for name, run in zip(flags, runs, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*VARIANTS, "legacy"])
def test_two_workers_are_one_with_update_freq_2(name, corpus, tmp_path, on_two_workers):
    """Losses, gradients, parameters."""
    two, folder = on_two_workers[name]
    model = "exlm" if name == "legacy" else name
    one = train(*variant(model, corpus, tmp_path, *PLAIN, "--update-freq", 2))
    assert two.values("bsz") == one.values("bsz") and len(two.updates) == UPDATES
    for figure in ("loss", "gnorm"):
        assert two.values(figure) == pytest.approx(one.values(figure), abs=2e-3)  # the log's last digit
    commands.assert_same_model(*(path / "checkpoint_last.pt" for path in (tmp_path, folder)), 1e-5)


@pytest.mark.slow
def test_an_epoch_ends_alike_where_one_worker_has_a_batch_less(corpus, tmp_path, on_two_workers):
    """In an update of two steps: the sentences of its first step count as their gradient does."""
    two, folder = on_two_workers["ragged"]
    one = train(*variant("exlm", corpus, tmp_path, *PLAIN, *RAGGED, "--update-freq", 4))
    assert two.values("bsz") == one.values("bsz") and len(two.updates) == UPDATES
    assert two.values("gnorm") == pytest.approx(one.values("gnorm"), abs=2e-3)
    commands.assert_same_model(*(path / "checkpoint_last.pt" for path in (tmp_path, folder)), 1e-5)


@pytest.mark.slow
def test_an_epoch_that_one_two_and_one_workers_train_has_every_sample_once(corpus, on_two_workers):
    run, folder = on_two_workers["begun"]
    assert list(run.losses()) == [5, 6]
    state = saved(folder)["extra_state"]["train_iterator"]
    assert (state["iterations_in_epoch"], state["seen_batches"]) == (4, 8)
    rest = train(*variant("exlm", corpus, folder, *PLAIN, "--max-update", 1000, "--max-epoch", 1))
    [blocks] = re.findall(r"loaded (\d+) blocks from: .*train", rest.text)
    assert 4 * 8 + sum(run.values("bsz")) + sum(rest.values("bsz")) == int(blocks)
