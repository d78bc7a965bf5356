"""--compile: the layers in one graph each, for all lengths, with eager's numbers."""

import pytest
import torch

from tests.criterions.batch import BATCH, WORDS
from tests.support import builders

criterion = builders.criterion(WORDS)


def step(model, batch):
    model.zero_grad(set_to_none=True)
    loss, _, _ = criterion(model, batch)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


def graphs() -> int:
    assert not torch._dynamo.utils.counters["graph_break"]
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.mark.slow
def test_equals_eager_whatever_the_lengths():
    others = builders.sample(WORDS, [builders.sentence(WORDS, n, [1, 2], seed=n) for n in (11, 9, 14, 7)])
    eager, compiled = (builders.exlm(WORDS, encoder_layers=1, compile=f).train() for f in (False, True))
    assert compiled.state_dict().keys() == eager.state_dict().keys()
    for batch in (BATCH, others):
        (loss, gradients), (expected, truth) = step(compiled, batch), step(eager, batch)
        torch.testing.assert_close(loss, expected)
        for name, gradient in gradients.items():
            torch.testing.assert_close(gradient, truth[name], rtol=1e-4, atol=1e-5)
    assert graphs() == 1  # it is not compiled again for other lengths


@torch._dynamo.config.patch(recompile_limit=4)
def test_validation_and_beyond_the_most_variants_eager_pytorch(monkeypatch):
    compile_layer = torch.nn.Module.compile
    monkeypatch.setattr(
        torch.nn.Module, "compile", lambda layer, **k: compile_layer(layer, backend="eager", **k)
    )
    eager, compiled = (builders.exlm(WORDS, compile=flag).train() for flag in (False, True))
    one = builders.sample(WORDS, [builders.sentence(WORDS, 9, [1])])
    for batch in (BATCH, one, BATCH):
        with torch.no_grad():
            torch.testing.assert_close(*(criterion(model, batch)[0] for model in (compiled, eager)))
        torch.testing.assert_close(step(compiled, batch), step(eager, batch), rtol=1e-4, atol=1e-5)
    assert graphs() == 4
