"""The random forest on the same data."""

import json

import baseline_moleculenet
import prepare_moleculenet
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


def test_forests_of_other_settings_or_data_are_refused(tmp_path, capsys):
    rows = [f"{'C' * n}{end},{n % 2}" for n in range(1, 11) for end in ("O", "N", "Cl")]
    (tmp_path / "a.csv").write_text("\n".join(["smiles,label", *rows]) + "\n")
    (tmp_path / "dict.txt").write_text("C 3\nO 2\nN 1\nCl 1\n")
    for name, seed in (("data", 1), ("other", 7)):
        argv = ["mine", tmp_path / "a.csv", tmp_path / name, "--dictionary", tmp_path / "dict.txt"]
        argv += ["--split", "random", "--seed", seed]
        assert prepare_moleculenet.main(list(map(str, argv))) == 0
    run = [str(tmp_path / "data"), str(tmp_path / "runs"), "--seeds", "1", "--trees"]
    baseline_moleculenet.main([*run, "2"])
    baseline_moleculenet.main([*run, "2"])
    assert "finished before" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="trees 2, now 3"):
        baseline_moleculenet.main([*run, "3"])
    with pytest.raises(SystemExit, match="train_rows_sha256"):
        baseline_moleculenet.main([str(tmp_path / "other"), *run[1:], "2"])
