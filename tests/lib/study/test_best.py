"""The best learning rate, and the best point of a grid."""

import json
import sys

import pytest
from lib.command_line import UserError
from lib.study import best

POINT = {"batch": "16", "epochs": "3", "warmup": "0.06"}


def pretrained(folder, lr, measure, low, own):
    """Of a pre-training: bits at 15% and at its own p."""
    path = folder / f"lr-{lr:g}" / "seed-1" / f"{measure}.json"
    path.parent.mkdir(parents=True)
    bits = {0.15: low, 0.387: own}
    values = {p: {"joint": {"mean": one}} if measure == "joint" else {"bits": one} for p, one in bits.items()}
    path.write_text(json.dumps({"results": [{"mask_prob": p, **value} for p, value in values.items()]}))
    run = {"run": {"lr": lr, "seed": 1, "own_mask_prob": 0.387}}
    (path.parent / "train.json").write_text(json.dumps(run))
    return path


def fine_tuned(folder, lr, score):
    path = folder / lr / "seed-1" / "result.json"
    path.parent.mkdir(parents=True)
    content = {"metric": "matthews", "metrics": {"valid": {"matthews": score, "accuracy": 1 - score}}}
    content |= {"seed": 1, "manifest": {"settings": {"point": {"lr": lr, **POINT}}}}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def choose(tmp_path, monkeypatch):
    """The content of the two files."""

    def chosen(paths):
        monkeypatch.setattr(sys, "argv", ["best", *map(str, [tmp_path / "a.json", *paths])])
        best.main()
        return json.loads((tmp_path / "a.json").read_text()), (tmp_path / "a.flags").read_text()

    return chosen


@pytest.mark.parametrize("measure", ["probe", "joint"])
def test_the_rate_with_the_fewest_bits_at_the_share_of_the_training(tmp_path, measure, choose):
    bits = {5e-4: (1.0, 4.0), 1e-3: (3.0, 2.5), 2e-3: (2.0, 3.0)}
    found, flags = choose([pretrained(tmp_path, lr, measure, *both) for lr, both in bits.items()])
    assert found == {"best": "0.001", "seed": 1, "scores": {"0.0005": -4.0, "0.001": -2.5, "0.002": -3.0}}
    assert flags == "--lr 0.001\n"


def test_the_point_with_the_best_metric_and_of_equals_the_first(tmp_path, choose):
    scores = {"2e-5": 0.5, "3e-5": 0.7, "4e-5": 0.7, "5e-5": 0.1}
    found, flags = choose([fine_tuned(tmp_path, lr, score) for lr, score in scores.items()])
    assert found["best"] == "lr3e-5-b16-e3-w0.06" and list(found["scores"].values()) == list(scores.values())
    assert flags == "--lr 3e-5 --batch-size 16 --max-epoch 3 --warmup-ratio 0.06\n"


def test_an_unfinished_run_is_named(tmp_path):
    with pytest.raises(UserError, match="lr-0.001/probe.json does not exist"):
        best.trial(tmp_path / "lr-0.001" / "probe.json")
