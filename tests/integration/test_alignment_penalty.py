"""The alignment penalty in training: one schedule for resumed runs and all workers, none in validation."""

import pytest

from tests.integration import commands
from tests.integration.commands import pretraining, start_workers, train

PENALTY = ["--alignment-penalty", 10, "--alignment-penalty-updates", 20]


def schedule(first: int, last: int) -> list[float]:
    """The penalty of updates FIRST ... LAST, counted from 1 as fairseq logs them, to the log's digits."""
    return [max(0.0, round(10 * (1 - (update - 1) / 20), 3)) for update in range(first, last + 1)]


def test_resumed_training_follows_the_schedule(corpus, tmp_path):
    flags = [*PENALTY, "--save-interval-updates", 6, "--keep-interval-updates", 1]
    whole = train(*pretraining(corpus, tmp_path / "whole", *flags, "--max-update", 24))
    train(*pretraining(corpus, tmp_path / "two", *flags, "--max-update", 12))
    resumed = train(*pretraining(corpus, tmp_path / "two", *flags, "--max-update", 24))
    assert whole.values("alignment_penalty") == schedule(1, 24)
    assert resumed.values("alignment_penalty") == schedule(13, 24)
    assert resumed.losses() == {update: loss for update, loss in whole.losses().items() if update > 12}
    commands.assert_same_model(*(tmp_path / name / "checkpoint_last.pt" for name in ("whole", "two")))


@pytest.mark.slow
def test_two_workers_follow_the_schedule(corpus, tmp_path):
    """As one worker with --update-freq 2, in losses and, with plain gradient descent, parameters."""
    flags = [*PENALTY, "--dropout", 0, "--attention-dropout", 0, "--optimizer", "sgd", "--lr", 0.1]
    one = train(*pretraining(corpus, tmp_path / "one", *flags, "--update-freq", 2))
    two = commands.finish(*start_workers(*pretraining(corpus, tmp_path / "two", *flags)))[0]
    assert two.values("alignment_penalty") == one.values("alignment_penalty") == schedule(1, 8)
    assert two.values("loss") == pytest.approx(one.values("loss"), abs=1e-3)  # the log's last digit
    commands.assert_same_model(*(tmp_path / name / "checkpoint_last.pt" for name in ("one", "two")), 1e-5)


def test_validation_is_not_penalised(corpus, tmp_path):
    """Nothing is learned, so both runs validate the same model."""
    flags = ["--lr", 0, "--max-update", 1]
    runs = []
    for name, penalty in (("without", []), ("with", PENALTY)):
        command = pretraining(corpus, tmp_path / name, *flags, *penalty)
        command.remove("--disable-validation")
        runs.append(train(*command))
    without, penalised = runs
    assert penalised.stats["valid"][0]["valid_loss"] == without.stats["valid"][0]["valid_loss"]
    assert float(penalised.updates[0]["loss"]) > float(without.updates[0]["loss"]) + 0.5
    assert "valid_alignment_penalty" not in penalised.stats["valid"][0]
    validated = commands.call(
        *("validate", corpus, "--user-dir", commands.PLUGIN, "--task", "masked_lm", "--batch-size", 8),
        *("--path", tmp_path / "with" / "checkpoint_last.pt", "--cpu", "--log-format", "json"),
    )
    assert validated.stats["valid"][0]["valid_loss"] == penalised.stats["valid"][0]["valid_loss"]


def test_a_negative_penalty_ends_the_run_before_it_begins(corpus, tmp_path):
    with pytest.raises(ValueError, match="--alignment-penalty must be .* got -2"):
        train(*pretraining(corpus, tmp_path, "--alignment-penalty", -2))
