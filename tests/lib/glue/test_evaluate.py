"""What a fine-tuning on GLUE reports of its rows and scores."""

import pandas as pd
import pytest
from lib.glue.evaluate import row_lengths, scores_of, scores_text
from lib.glue.tasks import TASKS

from tests import builders


def test_scores():
    found = pd.DataFrame({"prediction": list("10011"), "label": list("11001")})
    scores = scores_of(found, TASKS["MRPC"])
    assert list(scores) == ["accuracy", "f1"]
    assert scores == {"accuracy": pytest.approx(3 / 5, abs=1e-12), "f1": pytest.approx(2 / 3, abs=1e-12)}
    # by hand: (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)) = (2 - 1) / 6
    assert scores_of(found, TASKS["CoLA"])["matthews"] == pytest.approx(1 / 6, abs=1e-12)


def test_lengths_of_rows(tmp_path):
    words = builders.dictionary(9)
    first, second = [[5, 6, 7, 2], [5, 2]], [[6, 2], [5, 6, 7, 2]]
    builders.write_split(tmp_path / "input0", "train", first, words)
    assert row_lengths(tmp_path, "train").tolist() == [1 + 4, 1 + 2]  # <s> A </s>
    builders.write_split(tmp_path / "input1", "train", second, words)
    assert row_lengths(tmp_path, "train").tolist() == [1 + 4 + 1 + 2, 1 + 2 + 1 + 4]  # <s> A </s> </s> B </s>


def test_cut_rows_are_told():
    result = {"task": "RTE", "metrics": {"valid": {"accuracy": 0.5}}, "rows": {"valid": 277}}
    result["cut"] = {"valid": [3, 128]}
    assert scores_text(result) == "RTE valid (277 rows, 3 of them cut to 128 tokens): accuracy 50.00"
