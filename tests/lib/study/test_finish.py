"""What is kept of a finished pre-training of the study."""

import json
import shlex

import pytest
import torch
from lib.command_line import UserError
from lib.study.finish import finish

RECORDS = [
    *(
        ("train_inner", {"loss": str(9 - u / 10), "num_updates": str(u), "wpb": "10", "corrupted": "0.15"})
        for u in (1, 2)
    ),
    ("valid", {"valid_loss": "8.5", "valid_num_updates": "2"}),
    ("train", {"train_loss": "8.9", "train_train_wall": "12", "train_num_updates": "2"}),
]

RUN = {"name": "a", "lr": "best", "model": "repeated-mlm", "k": 2, "p": 0.387}
COMMAND = shlex.split(
    "fairseq-train data-bin --user-dir p --task repeated_masked_lm --criterion masked_lm --repeat-times 2 "
    "--encoder-layers 2 --encoder-embed-dim 8 --encoder-ffn-embed-dim 16 --encoder-attention-heads 2 "
    "--mask-prob 0.387 --max-positions 64 --tokens-per-sample 32 --batch-size 4 --max-update 2 "
    "--distributed-world-size 2"
)


@pytest.fixture
def save(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data-bin").mkdir()
    (tmp_path / "data-bin/dict.txt").write_text("".join(f"{i} 1\n" for i in range(30)))
    folder = tmp_path / "run"
    folder.mkdir()
    lines = (f"2026-01-01 00:00:00 | INFO | {kind} | {json.dumps(figures)}\n" for kind, figures in RECORDS)
    (folder / "train.log").write_text("".join(lines))
    (folder / "manifest.json").write_text(json.dumps({"settings": {"--lr": "5e-4"}, "runs": COMMAND}))
    history = [
        {"num_updates": 2, "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "criterion_name": "x"}
    ]
    state = {"args": None, "cfg": None, "model": {"weight": torch.ones(3)}, "optimizer_history": history}
    state |= {
        "extra_state": {"train_iterator": {"epoch": 1}},
        "last_optimizer_state": {"state": torch.zeros(9)},
    }
    for name in ("last", "best", "1_1", "1_2"):
        torch.save(state, folder / f"checkpoint_{name}.pt")
    return folder


def test_what_is_kept(save):
    found = finish(save, RUN)
    assert found["run"] == {**RUN, "rate": "best", "lr": 5e-4}
    assert (found["updates"], found["gpu_seconds"], found["valid"]["loss"]) == (2, 24, 8.5)
    assert found["corrupted"] == {"proportion": pytest.approx(0.15), "tokens": 10}
    assert found["machine"] and found["flops"] > 0
    kinds = [json.loads(line)["kind"] for line in (save / "metrics.jsonl").read_text().splitlines()]
    assert kinds == ["train", "train", "valid", "epoch"]
    assert sorted(path.name for path in save.glob("*.pt")) == ["checkpoint_1_1.pt", "checkpoint_last.pt"]
    for path in save.glob("*.pt"):
        kept = torch.load(path, weights_only=True)
        assert kept["last_optimizer_state"] is None and kept["model"]["weight"].tolist() == [1, 1, 1]
    assert finish(save, RUN) == found  # again, if it was killed before train.json


def test_a_training_that_left_nothing(save):
    (save / "checkpoint_last.pt").unlink()
    with pytest.raises(UserError, match="the training left no .*checkpoint_last.pt: see .*train.log"):
        finish(save, RUN)
    (save / "train.log").write_text("nothing\n")
    with pytest.raises(UserError, match="train.log has no figures"):
        finish(save, RUN)
