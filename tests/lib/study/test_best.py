"""The best learning rate."""

import json

import pytest
from lib.command_line import UserError
from lib.study.best import best_rate


def result(folder, lr, p, measure="probe", **bits):
    """Of a pre-training: bits at 15% and at its own p."""
    path = folder / f"lr-{lr:g}" / "seed-1" / f"{measure}.json"
    path.parent.mkdir(parents=True)
    results = [{"mask_prob": share, "bits": bits} for share, bits in ((0.15, bits["low"]), (p, bits["own"]))]
    if measure == "joint":
        results = [{"mask_prob": one["mask_prob"], "joint": {"mean": one["bits"]}} for one in results]
    path.write_text(json.dumps({"results": results}))
    (path.parent / "train.json").write_text(json.dumps({"run": {"lr": lr, "seed": 1, "own_ratio": p}}))
    return path


@pytest.mark.parametrize("measure", ["probe", "joint"])
def test_the_rate_with_the_fewest_bits_at_the_share_of_the_training(tmp_path, measure):
    results = [
        result(tmp_path, 5e-4, 0.387, measure, low=1.0, own=4.0),
        result(tmp_path, 1e-3, 0.387, measure, low=3.0, own=2.5),
        result(tmp_path, 2e-3, 0.387, measure, low=2.0, own=3.0),
    ]
    assert best_rate(results) == {"lr": 1e-3, "seed": 1, "bits": {"0.0005": 4.0, "0.001": 2.5, "0.002": 3.0}}


def test_an_unfinished_run_is_named(tmp_path):
    with pytest.raises(UserError, match="lr-0.001/probe.json does not exist"):
        best_rate([tmp_path / "lr-0.001" / "probe.json"])
