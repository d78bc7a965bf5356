"""The best learning rate."""

import json

import pytest
from recipes.command_line import RecipeError
from recipes.study.best import best_rate
from recipes.study.grids import Run


def probe(folder, lr, seed=1, p=0.387, **bits):
    path = folder / Run("exlm", 4, p, seed, lr=lr).key / "probe.json"
    path.parent.mkdir(parents=True)
    results = [{"mask_prob": share, "bits": bits} for share, bits in ((0.15, bits["low"]), (p, bits["own"]))]
    path.write_text(json.dumps({"results": results}))
    return path


def test_the_rate_with_the_fewest_bits_at_the_share_of_the_training(tmp_path):
    probes = [
        probe(tmp_path, 5e-4, low=1.0, own=4.0),
        probe(tmp_path, 1e-3, low=3.0, own=2.5),
        probe(tmp_path, 2e-3, low=2.0, own=3.0),
    ]
    assert best_rate(probes) == {"lr": 1e-3, "seed": 1, "bits": {"0.0005": 4.0, "0.001": 2.5, "0.002": 3.0}}


def test_an_unfinished_run_is_named(tmp_path):
    with pytest.raises(RecipeError, match="exlm-k4-p0.15-lr0.001-seed-1/probe.json does not exist"):
        best_rate([tmp_path / Run("exlm", 4, 0.15, lr=1e-3).key / "probe.json"])
