"""What fused linear layers keep, and autocast; parity and tests/huggingface check what they compute."""

import pytest
import torch
from torch import nn

from fs_plugins.modules.fused_linear import gelu_linear, rotary_projections
from fs_plugins.modules.rotary import RotaryEmbedding


def projections(x, *layers):
    rotation = RotaryEmbedding(4).tables(torch.tensor([[[0, 1], [7, 0], [30, 3], [31, 0], [0, 2]]]), x.dtype)
    return rotary_projections(x, layers, 3, rotation, rotated=2)


CASES = {"gelu": (1, lambda x, layer: [gelu_linear(x, layer)]), "rotary": (3, projections)}


@pytest.mark.parametrize("name", CASES)
def test_autocast_and_only_the_input_and_the_parameters_are_kept(name):
    count, lean = CASES[name]
    layers, x = [nn.Linear(12, 12) for _ in range(count)], torch.randn(2, 5, 12, requires_grad=True)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: kept.append(t.data_ptr()) or t, lambda t: t):
        lean(x, *layers)
    wanted = {x.data_ptr(), *(a.weight.data_ptr() for a in layers)}
    tables = 2 if name == "rotary" else 0
    assert wanted <= set(kept) and len(set(kept)) == len(wanted) + tables
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = lean(x, *layers)
    assert all(y.dtype == torch.bfloat16 for y in outputs)
    sum(y.float().sum() for y in outputs).backward()
    assert {p.grad.dtype for a in layers for p in a.parameters()} == {torch.float32}
