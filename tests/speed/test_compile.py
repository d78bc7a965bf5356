"""--compile and --cuda-graph: graphs of fixed shapes, few of them, with eager's numbers."""

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from torch._inductor import cpp_builder, exc

from fs_plugins.speed import compilation, match_scores
from tests.criterions.batch import BATCH, WORDS
from tests.support import builders, cuda_graphs

dag = builders.criterion(WORDS)
masked_lm = MaskedLmLoss(MaskedLmConfig(tpu=False), builders.task(WORDS))
FLAGS = ("compile", "cuda_graph")


def step(model, batch, criterion=dag):
    model.zero_grad(set_to_none=True)
    loss, _, _ = criterion(model, batch)
    loss.backward()
    return loss.detach(), {name: p.grad for name, p in model.named_parameters() if p.grad is not None}


def batch_of(lengths, masks=(1, 2)):
    return builders.sample(WORDS, [builders.sentence(WORDS, n, masks, seed=n) for n in lengths])


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    with torch._dynamo.config.patch(recompile_limit=8):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        match_scores._compiled_passes.cache_clear()
        yield
    match_scores._compiled_passes.cache_clear()


@pytest.fixture
def without_code(monkeypatch):
    """Graphs are traced and counted, but PyTorch's own operators run them."""
    compile_module, compile_function = torch.nn.Module.compile, torch.compile
    graphs = {"backend": "aot_eager", "dynamic": False}
    monkeypatch.setattr(torch.nn.Module, "compile", lambda part, **_: compile_module(part, **graphs))
    monkeypatch.setattr(torch, "compile", lambda function, **_: compile_function(function, **graphs))


def graphs() -> int:
    assert not torch._dynamo.utils.counters["graph_break"]
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def assert_equal_steps(compiled, eager, batch, criterion=dag):
    (loss, gradients), (expected, truth) = step(compiled, batch, criterion), step(eager, batch, criterion)
    torch.testing.assert_close(loss, expected)
    assert gradients.keys() == truth.keys()
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, truth[name], rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_equals_eager(flag, dtype):
    """In half precision as near to float64 as eager."""
    exact, eager, compiled = (
        builders.exlm(WORDS, encoder_layers=1, **f).train().to(t)
        for f, t in (({}, torch.float64), ({}, dtype), ({flag: True}, dtype))
    )
    assert compiled.state_dict().keys() == eager.state_dict().keys()
    if dtype == torch.float32:
        return assert_equal_steps(compiled, eager, BATCH)
    (loss, truth), *found = (step(model, BATCH) for model in (exact, eager, compiled))
    whole = torch.cat([g.flatten() for g in truth.values()])
    errors = []
    for _, gradients in found:
        mine = torch.cat([gradients[name].flatten() for name in truth]).double()
        errors.append(float((mine - whole).norm() / whole.norm()))
    assert errors[1] < 1.2 * errors[0] < 0.1
    torch.testing.assert_close(found[1][0].double(), loss.double(), rtol=0.01, atol=0)


@pytest.mark.slow
@pytest.mark.parametrize("flag", FLAGS)
@pytest.mark.parametrize("kind", ["exlm", "lattice", "repeated"])
def test_a_training_of_many_lengths_has_few_graphs(without_code, kind, flag):
    """Twice the same 8 updates on samples of 20 to 27 tokens, two to five of them masked, and validations."""
    arch, criterion, flags = builders.KINDS[kind]
    flags = flags | builders.SMALL
    eager, compiled = (builders.model(arch, WORDS, **flags, **f).train() for f in ({}, {flag: True}))
    criterion = masked_lm if kind == "repeated" else dag
    for i in range(16):
        batch = batch_of([18 + (i + j) % 8 for j in range(3)], range(1, 3 + i % 4))
        assert_equal_steps(compiled, eager, batch, criterion)
        if i % 8 == 0:
            with torch.no_grad():
                losses = [criterion(model.eval(), batch)[0] for model in (compiled, eager)]
            torch.testing.assert_close(*losses)
            compiled.train(), eager.train()
    assert 1 < graphs() <= 10


@pytest.mark.slow
def test_beyond_the_most_shapes_eager_pytorch(without_code, monkeypatch):
    monkeypatch.setattr(compilation, "SHAPES", 3)
    with torch._dynamo.config.patch(recompile_limit=3):
        eager, compiled = (builders.exlm(WORDS, cuda_graph=flag).train() for flag in (False, True))
        for length in (8, 16, 24, 32, 40, 8):
            assert_equal_steps(compiled, eager, batch_of([length] * 2))
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3 * 3  # encoder and loss


def test_without_a_compiler_eager_serves(monkeypatch, caplog):
    def no_compiler():
        raise exc.InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", no_compiler)
    step(builders.exlm(WORDS, compile=True).train(), BATCH)
    assert caplog.text.count("--compile") == 1
    assert graphs() == 0


@pytest.mark.parametrize("kind", ["exlm", "mlm"])
def test_features_are_those_of_the_tokens(without_code, kind):
    eager, compiled = (getattr(builders, kind)(WORDS, compile=flag) for flag in (False, True))
    tokens = batch_of([9, 5])["net_input"]["src_tokens"]
    with torch.no_grad():
        features, expected = (model.features(tokens) for model in (compiled, eager))
    given = tokens.ne(WORDS.pad())
    torch.testing.assert_close(features[given], expected[given])


@pytest.mark.parametrize("kind", ["exlm", "mlm"])
def test_features_survive_the_next_call(kind, monkeypatch):
    """Which overwrites what the graphs of the one before gave."""
    cuda_graphs.emulate(monkeypatch.setattr)
    model = getattr(builders, kind)(WORDS, cuda_graph=True)
    with torch.no_grad():
        features = [model.features(batch_of([n, 5])["net_input"]["src_tokens"]) for n in (9, 7)]
        kept = [x.clone() for x in features]
        model.features(batch_of([9, 5])["net_input"]["src_tokens"])
    assert all(x.isfinite().all() and torch.equal(x, y) for x, y in zip(features, kept, strict=True))
