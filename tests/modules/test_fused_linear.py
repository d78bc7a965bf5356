"""Fused linear layers against plain ones."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fs_plugins.modules.fused_linear import fused_linear, gelu_linear, rotary_projections
from fs_plugins.modules.rotary import RotaryEmbedding


def linears(case, dtype):
    torch.manual_seed(0)
    sizes = [12] * case[0] if case[1] is projections else range(4, 4 + case[0])
    return [nn.Linear(12, size).to(dtype) for size in sizes]


def data(dtype):
    return torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()


COORDINATES = torch.tensor(
    [[[0, 1], [7, 0], [30, 3], [31, 0], [0, 2]], [[5, 0], [6, 0], [3, 3], [1, 1], [0, 0]]]
)


def projections(x, *layers):
    rotation = RotaryEmbedding(4).tables(COORDINATES, x.dtype)
    return torch.stack(rotary_projections(x, layers, 3, rotation, rotated=2), 2)


def plain_projections(x, *layers):
    cos, sin = RotaryEmbedding(4).tables(COORDINATES, x.dtype)
    q, k, v = (a(x).unflatten(-1, (3, 2, 2, 1)) for a in layers)  # heads, dimensions, pair, h / 2
    q, k = (t * cos[:, :, 0] + t.flip(-2) * sin[:, :, 0] for t in (q, k))
    return torch.stack([q, k, v], 2).flatten(4)


CASES = {
    "gelu": (1, lambda x, a: gelu_linear(x, a), lambda x, a: a(F.gelu(x))),
    "fused": (
        3,
        lambda x, *layers: torch.cat(fused_linear(x, *layers), dim=-1),
        lambda x, *layers: torch.cat([a(x) for a in layers], dim=-1),
    ),
    "rotary": (3, projections, plain_projections),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    return request.param


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_equals_the_plain_way(case, dtype):
    _, lean, plain = case
    layers, x = linears(case, dtype), data(dtype)
    inputs = [x, *(p for a in layers for p in a.parameters())]
    y, expected = lean(x, *layers), plain(x, *layers)
    tolerance = {} if dtype != torch.bfloat16 else {"rtol": 0.03, "atol": 0.03}
    torch.testing.assert_close(y, expected, **tolerance)
    weights = torch.randn_like(y)
    gradients = (torch.autograd.grad(out, inputs, weights) for out in (y, expected))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


def test_autocast_and_only_the_input_and_the_parameters_are_kept(case):
    _, lean, _ = case
    layers, x = linears(case, torch.float32), data(torch.float32)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        lean(x, *layers)
    wanted = {x.data_ptr(), *(a.weight.data_ptr() for a in layers)}
    tables = 2 if case[1] is projections else 0
    assert wanted <= set(kept) and len(set(kept)) == len(wanted) + tables
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = lean(x, *layers)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert {p.grad.dtype for a in layers for p in a.parameters()} == {torch.float32}
