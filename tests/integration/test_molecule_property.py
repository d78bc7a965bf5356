"""Fine-tuning on properties: the metric over the whole split, with several workers, values, going on."""

import math

import numpy as np
import pytest
import torch

from fs_plugins.inference import load
from fs_plugins.inference.streaming import in_batches
from fs_plugins.metrics.properties import summarise
from tests.integration import commands
from tests.integration.commands import train
from tests.makers.prepared import write_properties

WORDS = 8


def rows(count, seed, regression=False):
    """Whether w0 is there; the second property is mostly missing, the third always."""
    rng = np.random.default_rng(seed)
    found = []
    for i in range(count):
        tokens = rng.integers(0, WORDS, rng.integers(2, 9)).tolist()
        target = 100 + 20.0 * tokens.count(0) if regression else float(0 in tokens)
        found.append((tokens, [target, math.nan if i % 3 else float(i % 2), math.nan]))
    return found


def flags(data, save, *more, metric="auc") -> list:
    return [
        *(data, "--user-dir", commands.PLUGIN, "--save-dir", save, "--task", "molecule_property"),
        *("--criterion", "molecule_property", "--arch", "exlm_tiny", "--ext-state-num", 2),
        *("--max-positions", 64, "--batch-size", 4, "--no-epoch-checkpoints", "--max-epoch", 2),
        *("--best-checkpoint-metric", metric, *(["--maximize-best-checkpoint-metric"] * (metric == "auc"))),
        *("--required-batch-size-multiple", 1, "--find-unused-parameters"),
        *(*commands.OPTIMIZER, *commands.QUIET, *commands.TINY_MODEL, *more),
    ]


def measured(checkpoint, split):
    """The metrics of a checkpoint over a split, computed beside fairseq's loop."""
    model = load(checkpoint, device="cpu")
    dictionary = model.checkpoint.dictionary
    tokens = [torch.tensor([0, *(dictionary.nspecial + t for t in row), 2]) for row, _ in split]
    labels = np.array([label for _, label in split])
    regression = model.properties.regression
    function = model.predictions if regression else model.outputs
    outputs = in_batches(tokens, function, dictionary.pad(), 1000, "cpu")
    return summarise(np.stack(outputs).astype(np.float64), labels, regression)


@pytest.mark.slow
def test_two_workers_measure_the_whole_split(tmp_path):
    """13 molecules in batches of 4: one of the workers gets a batch less, and an empty one instead."""
    valid = rows(13, 2)
    data = write_properties(tmp_path / "data", {"train": rows(32, 1), "valid": valid}, words=WORDS)
    save = tmp_path / "save"
    [run] = commands.train_on_two(flags(data, save, "--max-epoch", 1))
    logged = run.stats["valid"][-1]
    expected = measured(save / "checkpoint_last.pt", valid)
    assert float(logged["valid_auc"]) == pytest.approx(expected["auc"], abs=1e-5)
    assert int(logged["valid_scored_properties"]) == expected["scored_properties"] == 2


def test_regression_in_the_units_of_the_labels(tmp_path):
    valid = rows(30, 6, regression=True)
    splits = {"train": rows(80, 5, regression=True), "valid": valid}
    data = write_properties(tmp_path / "data", splits, "regression", WORDS)
    run = train(*flags(data, tmp_path, "--max-epoch", 5, metric="rmse"))
    errors = run.values("rmse", "valid")
    best = measured(tmp_path / "checkpoint_best.pt", valid)
    assert best["rmse"] == pytest.approx(min(errors), rel=1e-4)
    assert "auc" not in run.stats["valid"][0]
    assert errors[-1] < errors[0]
