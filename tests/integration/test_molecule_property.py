"""Fine-tuning on values, measured in the units of their labels."""

import numpy as np
import pytest
import torch

from fs_plugins.inference import load
from fs_plugins.metrics.properties import summarise
from tests.integration import commands
from tests.support.prepared import write_properties

WORDS, NAN = 8, float("nan")


def rows(count, seed):
    """How often w0 is there; the second property is mostly missing, the third always."""
    rng = np.random.default_rng(seed)
    drawn = [rng.integers(0, WORDS, rng.integers(2, 9)).tolist() for _ in range(count)]
    return [(row, [100 + 20.0 * row.count(0), NAN if i % 3 else i % 2, NAN]) for i, row in enumerate(drawn)]


def test_the_best_checkpoint_has_the_error_that_was_logged(tmp_path):
    valid = rows(30, 6)
    data = write_properties(tmp_path / "data", {"train": rows(80, 5), "valid": valid}, "regression", WORDS)
    run = commands.train(
        *(data, "--user-dir", commands.PLUGIN, "--save-dir", tmp_path, "--task", "molecule_property"),
        *("--criterion", "molecule_property", "--arch", "exlm_tiny", "--ext-state-num", 2),
        *("--max-positions", 64, "--batch-size", 4, "--no-epoch-checkpoints", "--max-epoch", 5),
        *("--best-checkpoint-metric", "rmse", "--required-batch-size-multiple", 1),
        *("--find-unused-parameters", *commands.OPTIMIZER, *commands.QUIET, *commands.TINY_MODEL),
    )
    errors = run.values("rmse", "valid")
    model = load(tmp_path / "checkpoint_best.pt", device="cpu")
    special = model.checkpoint.dictionary.nspecial
    tokens = [torch.tensor([0, *(special + t for t in row), 2]) for row, _ in valid]
    predicted = np.stack(model.in_batches(tokens, model.predictions)).astype(np.float64)
    best = summarise(predicted, np.array([labels for _, labels in valid]), regression=True)
    assert best["rmse"] == pytest.approx(min(errors), rel=1e-4) and errors[-1] < errors[0]
    assert "auc" not in run.stats["valid"][0]
