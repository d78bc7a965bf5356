"""The loss of SQuAD against cross entropy written out in float64."""

import argparse
import math

import pytest
import torch

import fs_plugins
from fs_plugins.finetuning.squad.criterion import Squad2Criterion
from fs_plugins.finetuning.squad.windows import NO_LABEL
from tests.criterions.batch import Told, logged

fs_plugins.register()

CRITERION = Squad2Criterion(argparse.Namespace(called_with={"token_head_name": "span"}))


@pytest.fixture
def case():
    torch.manual_seed(1)
    allowed = torch.tensor([[1, 0, 0, 1, 1, 1], [1, 0, 1, 1, 0, 0], [1, 0, 1, 1, 1, 0]], dtype=torch.bool)
    scores = torch.randn(3, 6, 2)
    scores[~allowed] = 50.0  # what is not allowed must not matter
    target = torch.tensor([[3, 5], [0, 0], [NO_LABEL, NO_LABEL]])
    sample = {"net_input": {"src_tokens": torch.arange(3)}, "nsentences": 3, "ntokens": 18}
    return Told(scores, token_head_name="span"), {**sample, "allowed": allowed, "target": target}


def test_loss_and_gradient(case):
    model, sample = case
    expected = 0.0
    for b, (first, last) in enumerate(sample["target"].tolist()[:2]):  # the third has no label
        for column, label in enumerate((first, last)):
            row = model.outputs[b, :, column].double()[sample["allowed"][b]].tolist()
            right = float(model.outputs[b, label, column].double())
            expected += (math.log(sum(math.exp(x) for x in row)) - right) / 2
    loss, size, log = CRITERION(model, sample)
    assert size == 2 and loss.item() == pytest.approx(expected, rel=1e-6)
    assert log["loss"] == loss
    loss.backward()
    assert torch.isfinite(model.outputs.grad).all()
    assert not model.outputs.grad[2].any() and not model.outputs.grad[~sample["allowed"]].any()
    each, _, _ = CRITERION(model, sample, reduce=False)
    assert each.shape == (3,) and each.sum().item() == pytest.approx(expected, rel=1e-6) and each[2] == 0
    model.outputs.data = model.outputs.data.half()
    half, _, _ = CRITERION(model, sample)
    assert half.dtype == torch.float32 and half.item() == pytest.approx(expected, rel=1e-3)


def test_right_needs_both_ends(case):
    model, sample = case
    with torch.no_grad():
        model.outputs.zero_()
        model.outputs[0, 3, 0] = model.outputs[0, 5, 1] = 9.0
        model.outputs[1, 0, 0] = model.outputs[1, 2, 1] = 9.0  # its end is not <s>
    log = CRITERION(model, sample)[2]
    assert log["right"] == 1
    found = logged(Squad2Criterion, log, {**log, "loss": 0.0, "right": 2}, {})
    bits = pytest.approx(float(log["loss"]) / 4 / math.log(2), abs=1e-3)
    assert found == {"loss": bits, "span_accuracy": 75}
