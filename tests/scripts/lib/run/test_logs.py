"""fairseq's logs as records."""

import json

import pytest
from lib.run import logs


def log_line(kind, **figures):
    return f"2026-01-01 00:00:00 | INFO | {kind} | {json.dumps({k: str(v) for k, v in figures.items()})}\n"


def test_a_resumed_log_is_one_curve():
    lines = [
        log_line("train_inner", loss=9.5, num_updates=10, wpb=100, corrupted=0.1),
        log_line("train_inner", loss=9.0, num_updates=20, wpb=100, corrupted=0.2),
        "Traceback\n",
        log_line("train_inner", loss=8.5, num_updates=20, wpb=300, corrupted=0.3, ups="inf"),
        log_line("train", train_loss=9.0, train_num_updates=20, train_train_wall=12),
        log_line("valid1", valid1_accuracy=70.5, valid1_num_updates=20),
        '2026 | INFO | train_inner | {"loss": "cut sh\n',
    ]
    lines = (line.replace("valid1_num", "num").replace("train_num", "num") for line in lines)
    records = logs.read_records(lines)
    kinds = [("train", 10), ("train", 20), ("epoch", 20), ("valid1", 20)]
    assert [(r["kind"], r["update"]) for r in records] == kinds
    second = {"loss": 8.5, "wpb": 300, "corrupted": 0.3, "ups": None}
    assert records[1] == {"kind": "train", "update": 20, **second}
    assert records[3]["accuracy"] == 70.5
    assert logs.training_seconds(records) == 12
    # k = 2: 10 x 100 / 2 tokens at 0.1 and 10 x 300 / 2 at 0.3
    assert logs.corruption(records, 2) == (pytest.approx(0.25), 2000)
