"""The alignment penalty in training: one schedule for resumed runs, none in validation."""

import pytest

from tests.integration import commands
from tests.integration.commands import pretraining, train

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
        *("--path", tmp_path / "with" / "checkpoint_last.pt", *commands.ON_CPU),
    )
    assert validated.stats["valid"][0]["valid_loss"] == penalised.stats["valid"][0]["valid_loss"]


def test_a_negative_penalty_ends_the_run_before_it_begins(corpus, tmp_path):
    with pytest.raises(ValueError, match="--alignment-penalty must be .* got -2"):
        train(*pretraining(corpus, tmp_path, "--alignment-penalty", -2))
