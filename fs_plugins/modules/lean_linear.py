"""Linear layers that keep less for the backward pass than their parts would."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def gelu_linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """layer(gelu(x)), [..., f] -> [..., d].

    gelu(x) is not kept but computed again in the backward pass: with a feed-forward size of 4 d that is a
    fifth of what an encoder layer keeps.
    """
    if torch.is_autocast_enabled(x.device.type):  # linear chooses its own type there
        return layer(F.gelu(x))
    return _GeluLinear.apply(x, layer.weight, layer.bias)


def packed_linear(x: Tensor, *layers: nn.Linear) -> Tensor:
    """Several layers' outputs for one input, [..., d] -> [..., sum of their sizes], as one matrix product.

    The packed weight is not kept but put together again in the backward pass.
    """
    if torch.is_autocast_enabled(x.device.type):
        return F.linear(x, torch.cat([a.weight for a in layers]), torch.cat([a.bias for a in layers]))
    return _PackedLinear.apply(x, *(a.weight for a in layers), *(a.bias for a in layers))


class _GeluLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.save_for_backward(x, weight)
        return F.linear(F.gelu(x), weight, bias)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        rows = grad.flatten(0, -2)  # [n, d]
        grad_weight = rows.t() @ F.gelu(x).flatten(0, -2)
        grad_x = torch.ops.aten.gelu_backward(grad @ weight, x)
        return grad_x, grad_weight, rows.sum(0)


class _PackedLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, *parameters):
        weights, biases = _halves(parameters)
        ctx.save_for_backward(x, *weights)
        return F.linear(x, torch.cat(weights), torch.cat(biases))

    @staticmethod
    def backward(ctx, grad):
        x, *weights = ctx.saved_tensors
        sizes = [len(weight) for weight in weights]
        rows = grad.flatten(0, -2)
        grad_weights = (rows.t() @ x.flatten(0, -2)).split(sizes)
        return grad @ torch.cat(weights), *grad_weights, *rows.sum(0).split(sizes)


def _halves(parameters: tuple[Tensor, ...]) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    return parameters[: len(parameters) // 2], parameters[len(parameters) // 2 :]
