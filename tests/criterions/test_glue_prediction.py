"""Scores over the whole validation set, as scikit-learn and SciPy give them, whatever its batches."""

import argparse

import numpy as np
import pytest
import torch
from fairseq.logging import metrics
from scipy import stats
from sklearn.metrics import matthews_corrcoef

from fs_plugins.criterions.glue_prediction import (
    GluePredictionConfig,
    GluePredictionCriterion,
    score,
)

NAMES = {
    "matthews": matthews_corrcoef,
    "accuracy": lambda t, p: np.mean(t == p),
    "f1": lambda t, p: 2 * np.sum(t * p) / np.sum(t + p),  # of class 1
}


class Head(torch.nn.Module):
    """A model whose sentences are their own logits."""

    def __init__(self, outputs: int):
        super().__init__()
        self.classification_heads = {"sentence_classification_head": None}
        self.outputs = outputs

    def forward(self, src_tokens, features_only, classification_head_name):
        return src_tokens, None

    def get_targets(self, sample, net_output):
        return sample["target"]


def criterion(metric: str, regression: bool = False) -> GluePredictionCriterion:
    cfg = GluePredictionConfig(glue_metric=metric, regression_target=regression)
    return GluePredictionCriterion(cfg, argparse.Namespace(label_dictionary=None, target_dictionary=None))


def logged_score(metric, logits, targets, sizes, regression=False) -> float:
    """What fairseq logs for a set that comes in batches of these sizes."""
    loss, model = criterion(metric, regression), Head(logits.shape[1]).eval()
    with metrics.aggregate(new_root=True) as aggregator:
        start = 0
        for size in sizes:
            part = slice(start, start + size)
            start += size
            sample = {"net_input": {"src_tokens": logits[part]}, "target": targets[part], "ntokens": size}
            _, _, logging_output = loss(model, sample)
            loss.reduce_metrics([logging_output])
    assert start == len(targets)
    return aggregator.get_smoothed_values()["score"]


@pytest.mark.parametrize("metric", [*NAMES, "spearman"])
@pytest.mark.parametrize("sizes", [[101], [1] * 101, [64, 37]])
def test_the_score_is_that_of_the_whole_set(metric, sizes):
    generator, regression = torch.Generator().manual_seed(1), metric == "spearman"
    logits = torch.randn(101, 1 if regression else 2, generator=generator)
    targets = torch.randint(6 if regression else 2, (101, 1), generator=generator)
    if regression:
        targets = targets.float() + logits  # ties in neither
        expected = stats.spearmanr(logits.view(-1).numpy(), targets.view(-1).numpy()).statistic
    else:
        expected = NAMES[metric](targets.view(-1).numpy(), logits.argmax(1).numpy())
    found = logged_score(metric, logits, targets, sizes, regression)
    assert found == pytest.approx(100 * expected, abs=1e-12)


def test_the_loss_is_fairseqs_and_training_gathers_nothing():
    logits, targets = torch.randn(7, 3), torch.randint(3, (7, 1))
    model, sample = Head(3), {"net_input": {"src_tokens": logits}, "target": targets, "ntokens": 7}
    expected = torch.nn.functional.cross_entropy(logits, targets.view(-1), reduction="sum")
    for training in (True, False):
        loss, size, logged = criterion("accuracy")(model.train(training), sample)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-6) and size == 7
        assert ("_predictions" in logged) is not training
    assert not model._forward_hooks


def test_what_is_not_defined_is_zero():
    assert score("spearman", [2.5, 2.5, 2.5], [1, 2, 3]) == 0.0
    assert score("pearson", [2.5], [1]) == 0.0
    assert score("matthews", [1, 1, 1], [0, 1, 1]) == 0.0


def test_what_cannot_be_scored():
    with pytest.raises(ValueError, match="predictions .* of targets"):
        score("accuracy", [1, 2], [1])
    with pytest.raises(ValueError, match="1 of 3 predictions are not finite"):
        score("spearman", [1, float("nan"), 2], [1, 2, 3])
    with pytest.raises(
        ValueError, match="--glue-metric spearman without --regression-target: choose accuracy"
    ):
        criterion("spearman")
    with pytest.raises(ValueError, match="--glue-metric accuracy with --regression-target: choose spearman"):
        criterion("accuracy", regression=True)
