"""GLUE's metrics of saved predictions."""

import pytest
from recipes.glue.predictions import scores_of
from recipes.glue.tasks import TASKS


def test_scores_of_a_saved_file(tmp_path):
    path = tmp_path / "valid.tsv"
    rows = [("0", "1", "1"), ("1", "0", "1"), ("2", "0", "0"), ("3", "1", "0"), ("4", "1", "1")]
    path.write_text("index\tprediction\tlabel\n" + "".join("\t".join(row) + "\n" for row in rows))
    found = scores_of(path, TASKS["MRPC"])
    assert list(found) == ["accuracy", "f1"]
    assert found == {"accuracy": pytest.approx(3 / 5, abs=1e-12), "f1": pytest.approx(2 / 3, abs=1e-12)}
    # by hand: (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)) = (2 - 1) / 6
    assert scores_of(path, TASKS["CoLA"])["matthews"] == pytest.approx(1 / 6, abs=1e-12)
