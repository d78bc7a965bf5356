"""The loss of labelled entries only, against scikit-learn."""

import argparse

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

import fs_plugins  # noqa: F401
from fs_plugins.criterions.molecule_property import MoleculePropertyCriterion, MoleculePropertyCriterionConfig
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
    head = {"features_only": True, "classification_head_name": "property"}
    task = argparse.Namespace(properties=info, head=head)
    return MoleculePropertyCriterion(MoleculePropertyCriterionConfig(), task)


def batch(labels, ids):
    ids = torch.as_tensor(ids)
    return {
        "id": ids,
        "net_input": {"src_tokens": ids},
        "target": torch.tensor(labels, dtype=torch.float32)[ids],
        "ntokens": 7 * len(ids),
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


def test_another_task_is_refused():
    with pytest.raises(ValueError, match="goes with --task molecule_property"):
        MoleculePropertyCriterion(MoleculePropertyCriterionConfig(), argparse.Namespace())
