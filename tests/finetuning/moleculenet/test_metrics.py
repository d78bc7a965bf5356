"""Metrics of labelled entries only, against scikit-learn."""

import numpy as np
import pytest
from sklearn import metrics

from fs_plugins.finetuning.moleculenet.metrics import by_property, summarise

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


def test_scores_of_the_properties_with_both_classes():
    predictions, labels = table(70, seed=2)
    found = summarise(predictions, labels, "classification", [1.0] * 5)
    functions = {"auc": metrics.roc_auc_score, "prc_auc": metrics.average_precision_score}
    functions["mcc"] = lambda truth, scores: metrics.matthews_corrcoef(truth, scores > 0)
    for name, metric in functions.items():
        values = expected(metric, predictions, labels, (FULL, SPARSE, FEW))
        assert found.pop(name) == pytest.approx(np.mean(values))
    assert found == {"scored_properties": 3}
    columns = by_property(predictions, labels, "classification")
    assert np.isnan(columns["auc"]).tolist() == [False, False, True, True, False]
    logits = by_property(1 / (1 + np.exp(-predictions)), labels, "classification", threshold=0.5)
    np.testing.assert_array_equal(columns["mcc"], logits["mcc"])
    nothing = np.full_like(labels, np.nan)
    assert summarise(predictions, nothing, "classification", [1.0] * 5) == {"scored_properties": 0}


def test_errors_of_the_properties_with_labels():
    predictions, labels = table(50, seed=3, regression=True)
    scored, std = (FULL, SPARSE, ONE_CLASS, FEW), np.array([1.0, 10.0, 3.0, 5.0, 1e4])
    found = summarise(predictions, labels, "regression", std)
    errors = np.sqrt(expected(metrics.mean_squared_error, predictions, labels, scored))
    assert found["rmse"] == pytest.approx(np.mean(errors))
    assert found["scaled_rmse"] == pytest.approx(np.mean(errors / std[[0, 1, 2, 4]]))
    mae = expected(metrics.mean_absolute_error, predictions, labels, scored)
    r2 = expected(metrics.r2_score, predictions, labels, (FULL, SPARSE, FEW))
    assert (found["mae"], found["r2"]) == pytest.approx((np.mean(mae), np.mean(r2)))
    assert found["scored_properties"] == 4 and "auc" not in found
    alone = summarise(predictions[:, :1], labels[:, :1], "regression", std[:1])
    assert next(iter(alone)) == "rmse" and next(iter(found)) == "scaled_rmse"
