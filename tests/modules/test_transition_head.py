"""Transitions against their formula, in float64 and by autograd."""

import math

import pytest
import torch

from fs_plugins.modules import transition_head
from fs_plugins.modules.transition_head import edge_mask, transition_log_probs


def by_formula(queries, keys, gates, edges):
    """E(v, u) = log sum over h of softmax(gates)[v, h] * softmax over the edges of v of the scaled scores."""
    H = gates.shape[-1]
    q, k = (t.unflatten(-1, (H, -1)) for t in (queries, keys))
    scores = torch.einsum("bvhc,buhc->bvuh", q, k) / math.sqrt(q.shape[-1])
    scores = scores.masked_fill(~edges[..., None], -1e30)  # finite, so that autograd stays so too
    mixture = (scores.softmax(2) * gates.softmax(-1)[:, :, None]).sum(-1)
    return torch.where(edges, mixture.clamp(min=1e-300).log(), -math.inf)


@pytest.mark.parametrize("chunk_bytes", [1, 5000, 2**26])
@pytest.mark.parametrize("H", [1, 4])
def test_equals_its_formula(monkeypatch, H, chunk_bytes):
    monkeypatch.setattr(transition_head, "HEAD_CHUNK_BYTES", chunk_bytes)
    torch.manual_seed(H)
    B, L, d = 3, 13, 8
    edges = edge_mask(torch.tensor([13, 8, 4]), L)
    leaves = [torch.randn(B, L, n, dtype=torch.float32, requires_grad=True) for n in (d, d, H)]
    links = transition_log_probs(*leaves, edges)
    doubles = [t.detach().double().requires_grad_() for t in leaves]
    expected = by_formula(*doubles, edges)
    torch.testing.assert_close(links.double(), expected, rtol=1e-5, atol=1e-5)
    weights = torch.randn(B, L, L).masked_fill(~edges, 0.0)
    torch.where(edges, links, 0.0).mul(weights).sum().backward()
    torch.where(edges, expected, 0.0).mul(weights.double()).sum().backward()
    for single, double in zip(leaves, doubles, strict=True):
        torch.testing.assert_close(single.grad.double(), double.grad, rtol=1e-4, atol=1e-5)


def test_rows_without_successor_and_extreme_scores():
    q = (torch.randn(2, 8, 4) * 300).requires_grad_()
    k, gates = torch.randn(2, 8, 4) * 300, torch.randn(2, 8, 2) * 100
    links = transition_log_probs(q, k, gates, edge_mask(torch.tensor([8, 3]), 8))
    assert torch.isfinite(links[0, :-1, -1]).all()
    links.backward(torch.ones_like(links))
    assert torch.isfinite(q.grad).all() and not q.grad[1, 2:].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_are_float32_where_queries_and_keys_are_half(dtype):
    """Of hundreds of nats, of which half precision would keep 8 or 11 binary digits."""
    generator = torch.Generator().manual_seed(1)
    sizes = (64, 20), (64, 20), (2, 1)
    q, k, gates = (torch.randn(2, 40, n, generator=generator).mul(s).to(dtype) for n, s in sizes)
    edges = edge_mask(torch.tensor([40, 33]), 40)
    by_head = (t.double().unflatten(-1, (2, -1)) for t in (q, k))
    assert torch.einsum("bvhc,buhc->bhvu", *by_head).abs().max() / math.sqrt(32) > 500
    leaves = [t.requires_grad_() for t in (q, k, gates)]
    links = transition_log_probs(*leaves, edges)
    doubles = [t.detach().double().requires_grad_() for t in leaves]
    expected = transition_log_probs(*doubles, edges)
    torch.testing.assert_close(links[edges].double(), expected[edges], rtol=0, atol=1e-3)
    weights = torch.rand(2, 40, 40, generator=generator).masked_fill(~edges, 0.0)
    links.backward(weights)
    expected.backward(weights.double())
    for low, double in zip(leaves, doubles, strict=True):
        error = (low.grad.double() - double.grad).abs().max() / double.grad.abs().max()
        assert error < 0.02  # of the gradient's own rounding
