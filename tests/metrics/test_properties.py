"""Metrics of labelled entries only, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import mean_absolute_error, mean_squared_error, roc_auc_score

from fs_plugins.metrics.properties import by_property, summarise

FULL, SPARSE, ONE_CLASS, NO_LABEL, FEW = range(5)


def table(rows, seed, regression=False):
    """(predictions, labels) [rows, 5]: all labels, half of them, one class only, none, and two labels."""
    rng = np.random.default_rng(seed)
    predictions = rng.normal(size=(rows, 5))
    labels = rng.normal(3, 10, (rows, 5)) if regression else rng.integers(0, 2, (rows, 5)).astype(float)
    labels[rng.random(rows) < 0.5, SPARSE] = np.nan
    labels[:, ONE_CLASS] = np.where(np.isnan(labels[:, SPARSE]), 1.0, np.nan)
    labels[:, NO_LABEL] = np.nan
    labels[2:, FEW] = np.nan
    labels[:2, FEW] = (2.5, -4) if regression else (0, 1)
    return predictions, labels


def expected(metric, predictions, labels, properties):
    known = ~np.isnan(labels)
    return [metric(labels[known[:, i], i], predictions[known[:, i], i]) for i in properties]


def test_auc_of_the_properties_with_both_classes():
    predictions, labels = table(70, seed=2)
    aucs = expected(roc_auc_score, predictions, labels, (FULL, SPARSE, FEW))
    assert summarise(predictions, labels, False) == {
        "auc": pytest.approx(np.mean(aucs)),
        "scored_properties": 3,
    }
    columns = by_property(predictions, labels, False)
    assert list(columns) == ["auc"] and np.isnan(columns["auc"]).tolist() == [False, False, True, True, False]
    assert summarise(predictions, np.full_like(labels, np.nan), False) == {"scored_properties": 0}


def test_errors_of_the_properties_with_labels():
    predictions, labels = table(50, seed=3, regression=True)
    scored = (FULL, SPARSE, ONE_CLASS, FEW)
    found = summarise(predictions, labels, True)
    squares = expected(mean_squared_error, predictions, labels, scored)
    assert found["rmse"] == pytest.approx(np.mean(np.sqrt(squares)))
    assert found["mae"] == pytest.approx(np.mean(expected(mean_absolute_error, predictions, labels, scored)))
    assert found["scored_properties"] == 4 and "auc" not in found
