"""The best point of a grid search."""

import pytest
from lib.command_line import UserError
from lib.files import write_json
from lib.glue.best import best_point


def result_of(folder, point, **scores):
    path = folder / point / "seed-1" / "result.json"
    path.parent.mkdir(parents=True)
    write_json(path, {"metric": "accuracy", "scores": {s: {"accuracy": v} for s, v in scores.items()}})
    return path


def test_the_best_point_of_a_task(tmp_path):
    found = [
        result_of(tmp_path, "lr1e-5", valid=0.6, valid1=0.9),  # of MNLI, the matched set counts
        result_of(tmp_path, "lr2e-5", valid=0.7, valid1=0.5),
        result_of(tmp_path, "lr3e-5", valid=0.7),  # of equals, the first
    ]
    points = {"lr1e-5": 0.6, "lr2e-5": 0.7, "lr3e-5": 0.7}
    assert best_point(found) == {"point": "lr2e-5", "score": 0.7, "points": points}


def test_a_result_that_is_missing_or_damaged(tmp_path):
    path = result_of(tmp_path, "lr1e-5", valid=0.6)
    with pytest.raises(UserError, match="nowhere/seed-1/result.json does not exist"):
        best_point([path, tmp_path / "nowhere" / "seed-1" / "result.json"])
    path.write_text('{"metric": "acc')
    with pytest.raises(UserError, match="result.json is damaged"):
        best_point([path])
