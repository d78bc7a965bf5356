"""Lean linear layers against plain ones."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fs_plugins.modules.lean_linear import gelu_linear, packed_linear


def linears(count, dtype):
    torch.manual_seed(0)
    return [nn.Linear(12, 4 + i).to(dtype) for i in range(count)]


def data(dtype):
    return torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1)).to(dtype).requires_grad_()


CASES = {
    "gelu": (1, lambda x, a: gelu_linear(x, a), lambda x, a: a(F.gelu(x))),
    "packed": (3, packed_linear, lambda x, *layers: torch.cat([a(x) for a in layers], dim=-1)),
}


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request):
    return request.param


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_equals_the_plain_way(case, dtype):
    count, lean, plain = case
    layers, x = linears(count, dtype), data(dtype)
    inputs = [x, *(p for a in layers for p in a.parameters())]
    y, expected = lean(x, *layers), plain(x, *layers)
    tolerance = {} if dtype != torch.bfloat16 else {"rtol": 0.03, "atol": 0.03}
    torch.testing.assert_close(y, expected, **tolerance)
    weights = torch.randn_like(y)
    gradients = (torch.autograd.grad(out, inputs, weights) for out in (y, expected))
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, **tolerance)


def test_gradcheck(case):
    count, lean, _ = case
    layers = linears(count, torch.float64)
    assert torch.autograd.gradcheck(lambda x: lean(x, *layers), data(torch.float64))


def test_autocast(case):
    count, lean, _ = case
    layers, x = linears(count, torch.float32), data(torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = lean(x, *layers)
    assert y.dtype == torch.bfloat16
    y.float().sum().backward()
    assert {p.grad.dtype for a in layers for p in a.parameters()} == {torch.float32}


def test_only_the_input_and_the_parameters_are_kept(case):
    count, lean, _ = case
    layers, x = linears(count, torch.float32), data(torch.float32)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        lean(x, *layers)
    assert set(kept) == {x.data_ptr(), *(a.weight.data_ptr() for a in layers)}
