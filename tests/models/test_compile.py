"""--compile: the layers in one graph each, for all lengths, with eager's numbers."""

import pytest
import torch

from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from tests import builders
from tests.criterions.batch import BATCH, WORDS


def step(model, batch):
    model.zero_grad(set_to_none=True)
    loss, _, _ = NatDagLossMLM(builders.task(WORDS))(model, batch)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.mark.slow
def test_equals_eager_whatever_the_lengths():
    torch._dynamo.reset()
    others = builders.sample(WORDS, [builders.sentence(WORDS, n, [1, 2], seed=n) for n in (11, 9, 14, 7)])
    eager, compiled = (builders.exlm(WORDS, compile=flag).train() for flag in (False, True))
    assert compiled.state_dict().keys() == eager.state_dict().keys()
    torch._dynamo.utils.counters.clear()
    for batch in (BATCH, others):
        (loss, gradients), (expected, truth) = step(compiled, batch), step(eager, batch)
        torch.testing.assert_close(loss, expected)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, truth[name], rtol=1e-4, atol=1e-5)
    # the last layer is another graph than the first, and neither is compiled again for other lengths
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2
