"""Linear layers fused with what is around them: fewer operators, and less is kept for the backward pass.

Weights are read from the layers; forward hooks of these are not called.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fs_plugins.modules.rotary import rotate_


def gelu_linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """Returns layer(gelu(x)) [..., d] of x [..., f].

    gelu(x) is not kept but computed again in the backward pass: with a feed-forward size of 4 d that is a
    fifth of what an encoder layer keeps.
    """
    return _GeluLinear.apply(*_autocast(x, layer.weight, layer.bias))


def rotary_projections(
    x: Tensor, layers: list[nn.Linear], heads: int, rotation: tuple[Tensor, Tensor], rotated: int
) -> tuple[Tensor, ...]:
    """Projects x [B, N, d] to attention heads, as one matrix product.

    The fused weight is not kept but put together again in the backward pass.

    Args:
        layers: d -> d each.
        rotation: of the outputs of the first ``rotated`` layers; see :func:`rotate_`.

    Returns:
        For each layer [B, N, heads, d / heads], all views of one tensor.
    """
    weights, biases = [a.weight for a in layers], [a.bias for a in layers]
    return _RotaryProjections.apply(heads, rotated, *rotation, *_autocast(x, *weights, *biases))


def _autocast(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Returns the tensors in the type that autocast has for linear layers, where it is enabled."""
    device = tensors[0].device.type
    if not torch.is_autocast_enabled(device):
        return tensors
    return tuple(t.to(torch.get_autocast_dtype(device)) for t in tensors)


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
        grad_x = torch.ops.aten.gelu_backward((rows @ weight).view(x.shape), x)
        return grad_x, grad_weight, rows.sum(0)


class _RotaryProjections(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        # Not named one by one: without gradients, torch.compile (2.13) takes a function of so many arguments
        # as it has parameters, *args being one, for one without ctx.
        heads, rotated, cos, sin, x, *parameters = inputs
        weights, biases = parameters[: len(parameters) // 2], parameters[len(parameters) // 2 :]
        ctx.save_for_backward(cos, sin, x, *weights)
        ctx.rotated = rotated
        y = F.linear(x, torch.cat(weights), torch.cat(biases)).unflatten(-1, (len(weights), heads, -1))
        rotate_(y[:, :, :rotated], cos, sin)  # [B, N, layers, heads, head_dim]
        return y.unbind(2)

    @staticmethod
    def backward(ctx, *grads):
        cos, sin, x, *weights = ctx.saved_tensors
        grad = torch.stack(grads, 2)
        rotate_(grad[:, :, : ctx.rotated], cos, sin, back=True)
        rows = grad.flatten(2).flatten(0, 1)  # [B * N, layers * d]
        grad_x = (rows @ torch.cat(weights)).view(x.shape)
        grad_weights = (rows.t() @ x.flatten(0, 1)).chunk(len(weights))
        return None, None, None, None, grad_x, *grad_weights, *rows.sum(0).chunk(len(weights))
