"""--compile and --cuda-graph: graphs of fixed shapes, few of them, with eager's numbers."""

import pytest
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from torch._inductor import cpp_builder, exc

from fs_plugins.exlm.expansion import Sizes
from fs_plugins.speed import compilation
from fs_plugins.speed.match_scores import match_scores
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
        compilation.no_compiler.cache_clear()
        yield
    compilation.no_compiler.cache_clear()


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
@pytest.mark.parametrize("kind", ["exlm", "repeated"])
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
        assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 3


@pytest.mark.parametrize("missing", ["C++ compiler", "Triton", "Python.h"])
def test_where_nothing_compiles_eager_serves(missing, monkeypatch, caplog):
    """On a CPU without a compiler; on a GPU without what Triton needs."""

    def fail(*_, **__):
        raise RuntimeError("gcc: fatal error: Python.h: No such file")

    def no_compiler():
        raise exc.InvalidCxxCompiler

    on_gpu = missing != "C++ compiler"
    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", no_compiler)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: on_gpu)
    monkeypatch.setattr(compilation, "has_triton", lambda: missing != "Triton")
    monkeypatch.setattr(compilation, "is_on_gpu", lambda x: on_gpu)
    monkeypatch.setattr(torch, "compile", fail)
    loss, _ = step(builders.exlm(WORDS, cuda_graph=on_gpu, compile=True).train(), BATCH)
    monkeypatch.undo()
    expected, _ = step(builders.exlm(WORDS).train(), BATCH)
    torch.testing.assert_close(loss, expected)
    assert caplog.text.count("runs eagerly") == 1 and missing in caplog.text and graphs() == 0


def test_rocm_has_no_cuda_graphs(monkeypatch):
    monkeypatch.setattr(torch.version, "hip", "6.4")
    with pytest.raises(ValueError, match="--cuda-graph.*--compile"):
        builders.exlm(WORDS, cuda_graph=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_passes_over_logits_and_rotations_are_one_graph_each_on_a_gpu(dtype, without_code, monkeypatch):
    """For any number of sentences, tokens and targets; with the results of plain PyTorch."""
    model, runs = builders.exlm(WORDS).to(dtype).train(), []
    for on_gpu in (False, True):
        monkeypatch.setattr(compilation, "is_on_gpu", lambda x, on_gpu=on_gpu: on_gpu)
        batches = [batch_of(lengths) for lengths in ([9, 7], [12, 5, 8], [17, 30], [6] * 5)]
        runs.append([step(model, batch) for batch in batches])
    for (loss, gradients), (expected, truth) in zip(*runs, strict=True):
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(gradients, truth)
    # two passes; rotations, with those of the last layer's queries
    assert graphs() <= 2 + 2 * 3


@pytest.mark.parametrize("k", [1, 2, 4, 7])
@pytest.mark.parametrize("p", [0.15, 0.5])
def test_batches_of_blocks_have_the_same_sizes(k, p):
    """Those of the sentence with most masks that fairseq can draw, in blocks of 100 to 128 tokens."""
    for T in (100, 104, 128):
        found = set()
        for masked in (0, 3, int(p * T), int(p * T + 1)):
            exact = Sizes(T + (masked + 2) * (k - 1), T, masked + 2)
            sizes = compilation.rounded(exact, T, k, 2048, p)
            assert sizes.N >= exact.N and sizes.U >= exact.U and sizes.M >= exact.M and not sizes.full
            assert exact.U + (k - 1) * (int(p * T + p * 7 + 1) + 2) + 7 >= sizes.N
            found.add(sizes)
        assert len(found) == 1
    assert compilation.rounded(Sizes(128 + 22 * 3, 128, 22), 128, 4, 2048, 0.15)[:3] == (194, 128, 22)


@pytest.mark.parametrize("p", [None, 0.1])
def test_other_batches_have_sizes_of_multiples_of_8(p):
    """Without a known share of masks, or with several sentences in a block."""
    exact = Sizes(60, 21, 13)
    sizes = compilation.rounded(exact, 20, 4, 62, p)
    assert sizes == Sizes(62, 24, 14) and compilation.rounded(exact, 20, 4, 50, p).N == 60


def test_no_chunk_has_2_to_the_31_logits(monkeypatch):
    """On a GPU whose share would hold more; nothing is computed."""
    found = []

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            found.extend([result.numel()] if isinstance(result, torch.Tensor) else [])
            return result

    with torch._subclasses.FakeTensorMode(), Largest():
        states, weight, bias = torch.empty(60, 1000, 8), torch.empty(50265, 8), torch.empty(50265)
        targets = torch.zeros(60, 2, dtype=torch.int64)
        match_scores(states, weight, bias, targets, chunk_bytes=2**40)
    assert 2**30 < max(found) < 2**31


@pytest.mark.parametrize("kind", ["exlm", "mlm"])
def test_features_are_those_of_the_tokens_and_survive_the_next_call(kind, monkeypatch):
    """Which overwrites what the graphs of the one before gave."""
    cuda_graphs.emulate(monkeypatch.setattr)
    eager, compiled = (getattr(builders, kind)(WORDS, cuda_graph=flag) for flag in (False, True))
    batches = [batch_of([n, 5])["net_input"]["src_tokens"] for n in (9, 7, 9)]
    with torch.no_grad():
        expected, found = ([model.features(tokens) for tokens in batches] for model in (eager, compiled))
    for tokens, features, truth in zip(batches[:2], found, expected, strict=False):
        given = tokens.ne(WORDS.pad())
        torch.testing.assert_close(features[given], truth[given])
