"""The baseline of table 1 on the same data."""

import json

import baseline_moleculenet
import pytest
from sklearn.metrics import roc_auc_score

from fs_plugins.data.smiles_tokens import tokenize
from tests.support import builders
from tests.support.molecules import labelled_molecules, molecules, read_csv


@pytest.mark.slow
def test_a_forest_learns_what_a_ring_is(tmp_path, capsys):
    builders.write_dictionary(tmp_path, sorted({token for one in molecules(100) for token in tokenize(one)}))
    data = labelled_molecules(tmp_path, 100, tmp_path / "dict.txt")
    argv = [str(data), str(tmp_path / "run"), "--seed", "2", "--trees", "30"]
    assert baseline_moleculenet.main(argv) == 0
    result = json.loads((tmp_path / "run/result.json").read_text())
    found = result["metrics"]["test"]["properties"]["ring"]["auc"]
    assert found > 0.9 and result["seed"] == 2
    rows = read_csv(tmp_path / "run/test.predictions.csv")
    truth, predicted = ([float(row[name]) for row in rows] for name in ("ring (label)", "ring"))
    assert found == pytest.approx(roc_auc_score(truth, predicted))
    assert all(0 <= value <= 1 for value in predicted)
    assert baseline_moleculenet.main(argv) == 0 and "finished before" in capsys.readouterr().out
