"""Match scores without the logits against log-softmax of all logits."""

import pytest
import torch
from bench_step import peak_of_allocations

from fs_plugins.speed.match_scores import match_scores


def plain(states, weight, bias, targets):
    log_probs = torch.log_softmax(states @ weight.t() + bias, dim=-1)  # [B, L, V]
    index = targets[:, None, :].expand(-1, states.shape[1], -1)  # [B, L, M]
    return log_probs.gather(2, index).transpose(1, 2)


def inputs(B=3, L=7, M=4, V=29, d=6, dtype=torch.float64, device="cpu"):
    generator = torch.Generator().manual_seed(B * L + M)
    states, weight = (torch.randn(*s, generator=generator, dtype=torch.float64) for s in ((B, L, d), (V, d)))
    bias = torch.randn(V, generator=generator, dtype=torch.float64)
    targets = torch.randint(V, (B, M), generator=generator)
    leaves = [t.to(device=device, dtype=dtype).requires_grad_() for t in (states, weight, bias)]
    return leaves, targets.to(device)


@pytest.mark.parametrize("rows_per_chunk", [0, 1, 4, 20, 21, 100])
@pytest.mark.parametrize("shape", [(3, 7, 4), (1, 1, 1), (2, 5, 9)])
def test_equals_the_plain_way(device, shape, rows_per_chunk):
    leaves, targets = inputs(*shape, device=device)
    targets[:, -1] = targets[:, 0]  # a token may be a target twice
    actual, expected = match_scores(*leaves, targets, 4 * 29 * rows_per_chunk), plain(*leaves, targets)
    torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(expected)
    gradients = (torch.autograd.grad(scores, leaves, weights) for scores in (actual, expected))
    torch.testing.assert_close(*gradients, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("V", [29, 32])  # with and without columns that fill a row up
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half(device, dtype, V):
    leaves, targets = inputs(dtype=torch.float32, device=device, V=V)
    low = [t.detach().to(dtype).requires_grad_() for t in leaves]
    exact = [t.detach().double().requires_grad_() for t in low]
    for chunk_bytes in (4 * V * 7, 256 * 2**20):  # several chunks, and one
        expected = plain(*exact, targets)
        actual = match_scores(*low, targets, chunk_bytes)
        assert actual.dtype == torch.float32
        torch.testing.assert_close(actual.double(), expected, rtol=0.02, atol=0.05)
        gradients = torch.autograd.grad(actual.sum(), low)
        for one, other in zip(gradients, torch.autograd.grad(expected.sum(), exact), strict=True):
            assert one.dtype == dtype
            error = torch.linalg.vector_norm(one.double() - other) / torch.linalg.vector_norm(other)
            assert error < 0.02
    with torch.autocast(device.type, dtype=dtype):
        actual = match_scores(*leaves, targets, 4 * 29 * 5)
    assert actual.dtype == torch.float32
    torch.testing.assert_close(actual, plain(*leaves, targets), rtol=0.02, atol=0.1)
    actual.sum().backward()
    assert all(t.grad.dtype == torch.float32 for t in leaves)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_in_many_chunks_is_as_near_as_in_one(device, dtype):
    """Of 512 nodes with like gradients, whose sum in half precision would stand still after some chunks."""
    leaves, targets = inputs(2, 256, 3, dtype=torch.float32, device=device)
    low = [t.detach().abs().to(dtype).requires_grad_() for t in leaves]
    exact = [t.detach().double().requires_grad_() for t in low]
    truth = torch.autograd.grad(plain(*exact, targets).sum(), exact)
    errors = []
    for rows in (512, 2):
        gradients = torch.autograd.grad(match_scores(*low, targets, 4 * 32 * rows).sum(), low)
        pairs = zip(gradients, truth, strict=True)
        errors.append([float((a.double() - b).norm() / b.norm()) for a, b in pairs])
    assert all(many < 1.5 * one for one, many in zip(*errors, strict=True))


def test_peaked_logits():
    leaves, targets = inputs(dtype=torch.float32)
    with torch.no_grad():
        leaves[0].mul_(1e4)
    actual = match_scores(*leaves, targets)
    expected = plain(*(t.detach().double() for t in leaves), targets)
    torch.testing.assert_close(actual.double(), expected, rtol=1e-5, atol=1e-2)
    actual.sum().backward()
    assert all(torch.isfinite(t.grad).all() for t in leaves)


def test_one_chunk_of_logits_at_a_time():
    """The largest tensors alive are a chunk of logits and the output matrix's gradient, not all logits."""
    B, L, V, d = 2, 256, 4000, 8
    leaves, targets = inputs(B, L, 5, V, d, dtype=torch.float32)
    chunk_bytes, all_logits = 4 * V * 16, 4 * V * B * L
    peak = peak_of_allocations(lambda: match_scores(*leaves, targets, chunk_bytes).sum().backward())
    rest = 4 * V * d + 4 * B * L * 5 * 4  # the output matrix's gradient; scores and their gradients
    assert chunk_bytes < peak < 1.3 * chunk_bytes + 2 * rest < all_logits / 7


def test_no_chunk_has_2_to_the_31_logits():
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
