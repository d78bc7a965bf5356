"""The reward for the entropy of transitions against its definition; for training only."""

import math
import types

import pytest
import torch
from fairseq.logging import metrics

from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from tests import builders
from tests.criterions.batch import BATCH, SENTENCES, WORDS


def criterion(**options) -> NatDagLossMLM:
    return NatDagLossMLM(builders.task(WORDS), **options)


def by_definition(model) -> list[float]:
    """Of each sentence by itself, the mean over its nodes but the last, node by node."""
    means = []
    for tokens, targets in SENTENCES:
        rows = model(tokens[None], target=targets[None])[0].links[0].double().tolist()
        entropies = [-sum(math.exp(x) * x for x in row if x > -math.inf) for row in rows[:-1]]
        means.append(sum(entropies) / len(entropies))
    return means


@pytest.mark.parametrize("weight", [0.5, 3.0])
@pytest.mark.parametrize("sparse", [True, False])
def test_it_lowers_the_loss_of_a_sentence_by_its_mean_entropy(weight, sparse):
    model = builders.exlm(WORDS, ext_state_num=3, sparse_dag=sparse).train()
    plain, _, _ = criterion()(model, BATCH, reduce=False)
    rewarded, _, log = criterion(transition_entropy=weight)(model, BATCH, reduce=False)
    expected = by_definition(model)
    assert ((plain - rewarded) / weight).tolist() == pytest.approx(expected, rel=1e-4)
    assert log["transition_entropy"].item() == pytest.approx(sum(expected), rel=1e-5)


def test_its_gradient_is_that_of_finite_differences():
    model = builders.exlm(WORDS, ext_state_num=2).double().train()
    with torch.no_grad():
        model.encoder.query_linear.weight.mul_(50)
    loss = criterion(transition_entropy=2.0)(model, BATCH)[0] - criterion()(model, BATCH)[0]
    loss.backward()
    weight = model.encoder.query_linear.weight
    assert torch.isfinite(weight.grad).all()
    step, values = 1e-5, []
    direction = weight.grad / weight.grad.norm()
    for sign in (1, -1):
        with torch.no_grad():
            weight.add_(sign * step * direction)
            values.append(criterion(transition_entropy=2.0)(model, BATCH)[0] - criterion()(model, BATCH)[0])
            weight.sub_(sign * step * direction)
    assert ((values[0] - values[1]) / (2 * step)).item() == pytest.approx(weight.grad.norm().item(), rel=1e-4)


def test_neither_by_default_nor_in_evaluation():
    model = builders.exlm(WORDS, ext_state_num=2)
    plain, _, log = criterion()(model, BATCH)
    rewarded, _, rewarded_log = criterion(transition_entropy=5.0)(model, BATCH)
    assert torch.equal(plain, rewarded)
    assert "transition_entropy" not in log | rewarded_log
    old = NatDagLossMLM.build_criterion(types.SimpleNamespace(), builders.task(WORDS))
    assert old.transition_entropy == 0


def test_its_mean_is_logged():
    model = builders.exlm(WORDS, ext_state_num=2).train()
    parts = [builders.sample(WORDS, part) for part in (SENTENCES[:1], SENTENCES[1:])]
    logs = [criterion(transition_entropy=1.0)(model, part)[2] for part in parts]
    with metrics.aggregate() as logged:
        NatDagLossMLM.reduce_metrics(logs)
    expected = sum(by_definition(model)) / 3
    assert logged.get_smoothed_values()["transition_entropy"] == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("weight", [-1.0, math.nan, math.inf])
def test_a_weight_that_is_none_is_refused(weight):
    with pytest.raises(ValueError, match=f"--transition-entropy must be .* 0 or more, got {weight}"):
        criterion(transition_entropy=weight)
