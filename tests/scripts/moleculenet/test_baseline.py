"""The random forest on the same data."""

import json

import baseline_moleculenet
import pytest
from sklearn.metrics import roc_auc_score

from tests.scripts.moleculenet.toys import read_csv


def test_forest_learns_what_a_ring_is(data, tmp_path, capsys):
    argv = [str(data), str(tmp_path / "rf"), "--trees", "30", "--seeds", "1", "2"]
    baseline_moleculenet.main(argv)
    metrics = json.loads((tmp_path / "rf/seed-1/metrics.json").read_text())
    assert metrics["test"]["properties"]["ring"]["auc"] > 0.9
    rows = read_csv(tmp_path / "rf/seed-1/test.predictions.csv")
    truth = [int(row["ring (label)"]) for row in rows]
    expected = roc_auc_score(truth, [float(row["ring"]) for row in rows])
    assert metrics["test"]["properties"]["ring"]["auc"] == pytest.approx(expected)
    capsys.readouterr()
    baseline_moleculenet.main(argv)
    assert capsys.readouterr().out.count("finished before") == 2
