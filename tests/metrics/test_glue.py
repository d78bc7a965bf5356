"""Metrics of GLUE by hand, and where they are not defined."""

import re

import numpy as np
import pytest

from fs_plugins.metrics.glue import score

CLASSES = ([1, 0, 0, 1, 1], [1, 1, 0, 0, 1])  # predictions, labels: 2 of 3 positive predictions are right


def test_scores_by_hand():
    assert score("accuracy", *CLASSES) == pytest.approx(3 / 5)
    assert score("f1", *CLASSES) == pytest.approx(2 / 3)
    # Matthews: (TP TN - FP FN) / sqrt((TP + FP)(TP + FN)(TN + FP)(TN + FN)) = (2 - 1) / 6
    assert score("matthews", *CLASSES) == pytest.approx(1 / 6, abs=1e-12)
    predictions, labels = [1.0, 2.0, 4.0, 8.0], [1.0, 3.0, 2.0, 9.0]
    assert score("spearman", predictions, labels) == pytest.approx(1 - 6 * 2 / (4 * 15), abs=1e-12)
    assert score("pearson", predictions, labels) == pytest.approx(np.corrcoef(predictions, labels)[0, 1])
    # not defined
    assert score("spearman", [2.5, 2.5, 2.5], [1, 2, 3]) == score("pearson", [2.5], [1]) == 0.0
    assert score("matthews", [1, 1, 1], [0, 1, 1]) == 0.0


@pytest.mark.parametrize("predictions", [[1, 2], []])
def test_sets_of_different_sizes_are_refused(predictions):
    with pytest.raises(ValueError, match=re.escape(str(np.shape(predictions)))):
        score("accuracy", predictions, [1][: len(predictions)])
