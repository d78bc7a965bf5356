"""What is kept of a finished pre-training, and of its log; the best point of a grid."""

import json
import sys

import pytest
import torch
from lib.workflow import jobs

from tests.support import builders
from tests.support.builders import write_file

RECORDS = [  # update 2 is repeated, as after a kill
    ("train_inner", {"loss": "8.9", "num_updates": "1", "wpb": "10", "corrupted": "0.1", "ppl": "inf"}),
    ("train_inner", {"loss": "9.5", "num_updates": "2", "wpb": "10", "corrupted": "0.2", "ppl": "700"}),
    ("train_inner", {"loss": "8.8", "num_updates": "2", "wpb": "30", "corrupted": "0.3", "ppl": "400"}),
    ("valid", {"valid_loss": "8.5", "valid_num_updates": "2"}),
    ("train", {"epoch": 1, "train_loss": "9", "train_train_wall": "7", "train_num_updates": "1"}),
    ("train", {"epoch": 1, "train_loss": "8.9", "train_train_wall": "12", "train_num_updates": "2"}),
]


def test_what_is_kept(tmp_path):
    lines = [f"2026-01-01 00:00:00 | INFO | {kind} | {json.dumps(figures)}\n" for kind, figures in RECORDS]
    lines[2:2] = ["Traceback\n", '2026 | INFO | train_inner | {"loss": "cut sh\n']
    save = tmp_path / "study/repeated-mlm-k2-p0.387/seed-1"
    write_file(save / "train.log", "".join(lines))
    write_file(save / "manifest.json", {"workers": [2]})
    model, optimizer = {"weight": torch.ones(3)}, {"state": torch.zeros(9)}
    for name in ("last", "best", "1_1", "1_2"):
        about = {"updates": 2} | ({"last_optimizer_state": optimizer} if name != "1_1" else {})  # not saved
        builders.save_checkpoint(save / f"checkpoint_{name}.pt", model, {"arch": "x"}, {}, {}, **about)
    for _ in range(2):  # again, if it was killed before train.json
        jobs.finish(save)
        found = json.loads((save / "train.json").read_text())
        assert (found["updates"], found["seconds"], found["gpu_seconds"]) == (2, 12, 24)
        # k = 2: 10 / 2 tokens at 0.1 and 30 / 2 at 0.3
        assert found["corrupted"] == {"proportion": pytest.approx(0.25), "tokens": 20}
        assert found["machine"]
        curve = [(one["update"], one["loss"], one["ppl"]) for one in found["curve"]]
        assert curve == [(1, 8.9, None), (2, 8.8, 400)]
        assert sorted(path.name for path in save.glob("*.pt")) == ["checkpoint_1_1.pt", "checkpoint_last.pt"]
        for path in save.glob("*.pt"):
            kept = torch.load(path, weights_only=True)
            assert kept.get("last_optimizer_state") is None and kept["model"]["weight"].tolist() == [1, 1, 1]
    write_file(save / "manifest.json", {"workers": [2, 4]})
    write_file(save / "train.log", lines[-1].replace('"epoch": 1', '"epoch": 2'))  # the rest was lost
    jobs.finish(save)
    found = json.loads((save / "train.json").read_text())
    assert (found["seconds"], found["gpu_seconds"]) == (None, None)


def test_the_point_with_the_best_metric_and_of_equals_the_first(tmp_path, monkeypatch):
    scores, paths = {"2e-5": 0.5, "3e-5": 0.7, "4e-5": 0.7, "5e-5": 0.1}, [tmp_path / "a.json"]
    for lr, score in scores.items():
        content = {"metric": "matthews", "metrics": {"valid": {"matthews": score, "accuracy": 1 - score}}}
        point = {"lr": lr, "batch": "16", "epochs": "3", "warmup": "0.06"}
        content["manifest"] = {"settings": {"point": point}}
        paths.append(write_file(tmp_path / lr / "seed-1/result.json", content))
    monkeypatch.setattr(sys, "argv", ["jobs", "best", *map(str, paths)])
    jobs.main()
    assert [*json.loads(paths[0].read_text())["scores"].values()] == [*scores.values()]
    flags = paths[0].with_suffix(".flags").read_text()
    assert flags == "--lr 3e-5 --batch-size 16 --max-epoch 3 --warmup-ratio 0.06\n"
