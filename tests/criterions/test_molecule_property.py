"""The loss and the metrics of labelled entries only, against scikit-learn, over whole splits."""

import argparse
import math

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from sklearn.metrics import log_loss, mean_absolute_error, mean_squared_error, roc_auc_score

import fs_plugins  # noqa: F401
from fs_plugins.criterions.molecule_property import MoleculePropertyCriterion, MoleculePropertyCriterionConfig
from fs_plugins.criterions.property_metrics import summarise
from fs_plugins.data.property_info import PropertyInfo

PROPERTIES = 5
FULL, SPARSE, ONE_CLASS, NO_LABEL, FEW = range(PROPERTIES)


class Outputs(torch.nn.Module):
    """A model that gives out what it is told: ``outputs[id]``."""

    def __init__(self, outputs: np.ndarray):
        super().__init__()
        self.outputs = torch.nn.Parameter(torch.tensor(outputs, dtype=torch.float32))

    def forward(self, src_tokens, features_only, classification_head_name):
        assert features_only and classification_head_name == "property"
        return self.outputs[src_tokens], {}


def table(rows=60, seed=0, regression=False):
    """(outputs, labels) [rows, 5]: all labels, half of them, one class only, none, and two labels."""
    rng = np.random.default_rng(seed)
    outputs = rng.normal(size=(rows, PROPERTIES))
    labels = rng.normal(3, 10, (rows, PROPERTIES)) if regression else rng.integers(0, 2, (rows, PROPERTIES))
    labels = labels.astype(np.float64)
    labels[rng.random(rows) < 0.5, SPARSE] = np.nan
    labels[:, ONE_CLASS] = np.where(np.isnan(labels[:, SPARSE]), 1.0, np.nan)
    labels[:, NO_LABEL] = np.nan
    labels[2:, FEW] = np.nan
    labels[:2, FEW] = (0, 1) if not regression else (2.5, -4)
    return outputs, labels


def criterion(mean=None, std=None):
    regression = mean is not None
    info = PropertyInfo(
        "regression" if regression else "classification",
        tuple(f"p{i}" for i in range(PROPERTIES)),
        tuple(mean) if regression else (0.0,) * PROPERTIES,
        tuple(std) if regression else (1.0,) * PROPERTIES,
    )
    return MoleculePropertyCriterion(MoleculePropertyCriterionConfig(), argparse.Namespace(properties=info))


def batch(labels, ids):
    ids = torch.as_tensor(ids)
    return {
        "id": ids,
        "net_input": {"src_tokens": ids},
        "target": torch.tensor(labels, dtype=torch.float32)[ids],
        "ntokens": 7 * len(ids),
        "split_size": torch.full((len(ids),), len(labels)),
    }


def test_loss_is_that_of_the_labelled_entries():
    outputs, labels = table()
    model = Outputs(outputs)
    loss, sample_size, _ = criterion()(model, batch(labels, range(60)))
    known = ~np.isnan(labels)
    assert sample_size == known.sum()
    probabilities = 1 / (1 + np.exp(-outputs[known]))
    expected = log_loss(labels[known], probabilities, normalize=False)
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    gradient = model.outputs.grad.numpy()
    assert (gradient[~known] == 0).all()
    assert gradient[known] == pytest.approx(probabilities - labels[known], abs=1e-5)


def test_loss_of_each_molecule_and_batch_without_labels():
    outputs, labels = table()
    model, some = Outputs(outputs), batch(labels, range(60))
    each, whole = (criterion()(model, some, reduce=reduce)[0] for reduce in (False, True))
    assert each.shape == (60,) and each.sum().item() == pytest.approx(whole.item(), rel=1e-5)
    loss, sample_size, _ = criterion()(model, batch(np.full_like(labels, np.nan), [3, 4]))
    loss.backward()
    assert loss == 0 and sample_size == 0 and (model.outputs.grad == 0).all()


def test_regression_is_standardised():
    outputs, labels = table(regression=True)
    mean, std = np.arange(5.0) - 2, np.arange(5.0) + 0.5
    loss, sample_size, _ = criterion(mean, std)(Outputs(outputs), batch(labels, range(60)))
    known = ~np.isnan(labels)
    assert sample_size == known.sum()
    expected = (((labels - mean) / std - outputs)[known] ** 2).sum()
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def validated(judge, outputs, labels, batches, workers=1):
    """What fairseq logs after a validation: each round of batches is summed over workers, as it sums."""
    model = Outputs(outputs).eval()
    with metrics.aggregate(new_root=True) as aggregator:
        for start in range(0, len(batches), workers):
            logs = [judge(model, batch(labels, ids))[2] for ids in batches[start : start + workers]]
            if workers > 1:
                assert judge.logging_outputs_can_be_summed()
                logs = [{key: sum(torch.as_tensor(log[key]).double() for log in logs) for key in logs[0]}]
            judge.reduce_metrics(logs)
        return aggregator.get_smoothed_values()


def test_the_auc_is_computed_for_the_split_and_not_for_each_batch(monkeypatch):
    outputs, labels = table(70, seed=2)
    judge, model, rows = criterion(), Outputs(outputs).eval(), []
    monkeypatch.setattr(
        "fs_plugins.criterions.molecule_property.summarise",
        lambda scores, targets, regression: rows.append(int((scores != 0).any(1).sum())) or {},
    )
    with metrics.aggregate(new_root=True) as split:
        for ids in (range(30), range(30, 60), range(60, 70)):
            with metrics.aggregate() as one:  # as fairseq's trainer does
                judge.reduce_metrics([judge(model, batch(labels, ids))[2]])
                one.get_smoothed_values()
        split.get_smoothed_values()
    assert rows == [70, 70]  # auc and scored_properties


@pytest.mark.parametrize("workers", [1, 3])
def test_auc_is_that_of_the_whole_split(workers):
    outputs, labels = table(70, seed=2)
    order = np.random.default_rng(1).permutation(70)
    batches = np.split(order, [1, 9, 30, 31, 64])
    logged = validated(criterion(), outputs, labels, batches, workers)
    aucs = []
    for i in (FULL, SPARSE, FEW):  # the others have no two classes
        known = ~np.isnan(labels[:, i])
        aucs.append(roc_auc_score(labels[known, i], outputs[known, i]))
    assert logged["auc"] == pytest.approx(np.mean(aucs), abs=1e-6)
    assert logged["scored_properties"] == 3
    known = ~np.isnan(labels)
    bits = log_loss(labels[known], 1 / (1 + np.exp(-outputs[known]))) / math.log(2)
    assert logged["loss"] == pytest.approx(bits, abs=1e-4)
    assert logged["labels"] == pytest.approx(known.sum() / 70, abs=1e-2)
    assert not any(key.startswith("_") for key in logged)


def test_rmse_is_in_the_units_of_the_labels():
    outputs, labels = table(50, seed=3, regression=True)
    mean, std = np.array([1.0, -2, 0, 5, 100]), np.array([10.0, 0.1, 1, 2, 3])
    logged = validated(criterion(mean, std), outputs, labels, np.split(np.arange(50), [20, 21]))
    predicted = outputs * std + mean
    rmse, mae = [], []
    for i in (FULL, SPARSE, ONE_CLASS, FEW):
        known = ~np.isnan(labels[:, i])
        rmse.append(mean_squared_error(labels[known, i], predicted[known, i]) ** 0.5)
        mae.append(mean_absolute_error(labels[known, i], predicted[known, i]))
    assert logged["rmse"] == pytest.approx(np.mean(rmse), rel=1e-5)
    assert logged["mae"] == pytest.approx(np.mean(mae), rel=1e-5)
    assert logged["scored_properties"] == 4 and "auc" not in logged


def test_nothing_to_score():
    labels = np.full((6, PROPERTIES), np.nan)
    labels[:, ONE_CLASS] = 1
    logged = validated(criterion(), np.zeros((6, PROPERTIES)), labels, [range(6)])
    assert math.isnan(logged["auc"]) and logged["scored_properties"] == 0
    assert "auc" not in summarise(np.zeros_like(labels), labels, regression=False)


def test_another_task_is_refused():
    with pytest.raises(ValueError, match="goes with --task molecule_property"):
        MoleculePropertyCriterion(MoleculePropertyCriterionConfig(), argparse.Namespace())
