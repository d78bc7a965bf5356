"""Transitions in chunks and in half precision; tests/models/test_parity.py has their values."""

import math

import pytest
import torch

from fs_plugins.exlm import transitions
from fs_plugins.exlm.transitions import edge_mask, transition_log_probs


@pytest.mark.parametrize("chunk_bytes", [1, 5000])
def test_heads_in_chunks_give_the_same(monkeypatch, chunk_bytes):
    edges, results = edge_mask("dag", torch.tensor([13, 8, 4]), 13, 1), []
    leaves = [torch.randn(3, 13, n, dtype=torch.float64, requires_grad=True) for n in (8, 8, 4)]
    weights = torch.randn(3, 13, 13, dtype=torch.float64)
    for size in (transitions.HEAD_CHUNK_BYTES, chunk_bytes):
        monkeypatch.setattr(transitions, "HEAD_CHUNK_BYTES", size)
        links = transition_log_probs(*leaves, edges)
        loss = torch.where(edges, links * weights, 0.0).sum()
        results.append((links, *torch.autograd.grad(loss, leaves)))
    torch.testing.assert_close(*results)


def test_rows_without_successor_and_extreme_scores():
    q = (torch.randn(2, 8, 4) * 300).requires_grad_()
    k, gates = torch.randn(2, 8, 4) * 300, torch.randn(2, 8, 2) * 100
    links = transition_log_probs(q, k, gates, edge_mask("dag", torch.tensor([8, 3]), 8, 1))
    assert torch.isfinite(links[0, :-1, -1]).all()
    links.backward(torch.ones_like(links))
    assert torch.isfinite(q.grad).all() and not q.grad[1, 2:].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_scores_are_float32_where_queries_and_keys_are_half(dtype):
    """Of hundreds of nats, of which half precision would keep 8 or 11 binary digits."""
    generator = torch.Generator().manual_seed(1)
    sizes = (64, 20), (64, 20), (2, 1)
    q, k, gates = (torch.randn(2, 40, n, generator=generator).mul(s).to(dtype) for n, s in sizes)
    edges = edge_mask("dag", torch.tensor([40, 33]), 40, 1)
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
