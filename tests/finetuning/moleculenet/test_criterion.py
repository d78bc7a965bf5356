"""The loss of labelled entries only, against scikit-learn."""

import argparse
import math

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from sklearn.metrics import log_loss

import fs_plugins
from fs_plugins.finetuning.moleculenet.criterion import MoleculePropertyCriterion
from fs_plugins.finetuning.outputs import PropertyInfo
from tests.criterions.batch import Told, logged
from tests.finetuning.moleculenet.test_metrics import table

fs_plugins.register()

HEAD = {"features_only": True, "classification_head_name": "property"}


def loss_of(model, labels, kind="classification", mean=(0.0,) * 5, std=(1.0,) * 5, **options):
    """What the criterion gives for all molecules: loss, sample size, log."""
    task = argparse.Namespace(properties=PropertyInfo(kind, tuple("abcde"), mean, std), called_with=HEAD)
    ids = torch.arange(len(labels))
    batch = {"id": ids, "net_input": {"src_tokens": ids}, "ntokens": 7 * len(ids)}
    batch["target"] = torch.tensor(labels, dtype=torch.float64)
    return MoleculePropertyCriterion(task)(model, batch, **options)


def test_loss_is_that_of_the_labelled_entries():
    outputs, labels = table(60, seed=0)
    model, known = Told(outputs, **HEAD), ~np.isnan(labels)
    loss, sample_size, _ = loss_of(model, labels)
    probabilities = 1 / (1 + np.exp(-outputs[known]))
    expected = log_loss(labels[known], probabilities, normalize=False)
    assert sample_size == known.sum() and loss.item() == pytest.approx(expected, rel=1e-5)
    loss.backward()
    gradient = model.outputs.grad.numpy()
    assert (gradient[~known] == 0).all()
    assert gradient[known] == pytest.approx(probabilities - labels[known], abs=1e-5)
    each, _, _ = loss_of(model, labels, reduce=False)
    assert each.shape == (60,) and each.sum().item() == pytest.approx(expected, rel=1e-5)
    model.zero_grad()
    loss, sample_size, _ = loss_of(model, np.full_like(labels, np.nan))
    loss.backward()
    assert loss == 0 and sample_size == 0 and (model.outputs.grad == 0).all()


@pytest.mark.parametrize(("kind", "unit"), [("classification", math.log(2)), ("regression", 1)])
def test_what_is_logged_is_per_label(kind, unit):
    outputs, labels = table(60, seed=0, regression=kind == "regression")
    loss, size, _ = loss_of(Told(outputs, **HEAD), labels, kind)
    parts = slice(9), slice(9, None)
    logs = [loss_of(Told(outputs[part], **HEAD), labels[part], kind)[2] for part in parts]
    expected = pytest.approx(float(loss.detach() / size) / unit, rel=1e-3)
    found = logged(MoleculePropertyCriterion, *logs)
    assert found == {"loss": expected, "labels": round(int(size) / 60, 2)}
    nothing = loss_of(Told(outputs, **HEAD), np.full_like(labels, np.nan), kind)[2]
    with metrics.aggregate() as several:  # a validation
        for log in (*logs, nothing):
            MoleculePropertyCriterion.reduce_metrics([log])
    assert several.get_smoothed_values()["loss"] == expected
    assert math.isnan(logged(MoleculePropertyCriterion, nothing)["loss"])  # not -1, fairseq's own


def test_regression_is_standardised():
    """Also of labels that float32 would not tell apart."""
    outputs, labels = table(60, seed=0, regression=True)
    labels += 1e8
    mean, std = np.arange(5.0) - 2 + 1e8, np.arange(5.0) + 0.5
    loss, sample_size, _ = loss_of(Told(outputs, **HEAD), labels, "regression", tuple(mean), tuple(std))
    known = ~np.isnan(labels)
    expected = (((labels - mean) / std - outputs)[known] ** 2).sum()
    assert sample_size == known.sum() and loss.item() == pytest.approx(expected, rel=1e-5)
