"""Layers with fewer operators, that keep less for the backward pass."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fs_plugins.exlm.encoder import EncoderLayer, gather_tokens
from fs_plugins.speed.compilation import fused_on_gpu
from fs_plugins.speed.dropout import FastAttention


class LeanLayer(EncoderLayer):
    """The activations are not kept but computed again in the backward pass: with a feed-forward size of 4 d
    that is a fifth of what a layer keeps. No matrix product is computed twice."""

    def second_half(self, x: Tensor) -> Tensor:
        if not self.training or self.activation_dropout.p > 0.0:
            return super().second_half(x)
        return checkpoint(super().second_half, x, use_reentrant=False, preserve_rng_state=False)


class LeanAttention(FastAttention):
    """Queries, keys and values are one matrix product, and their rotation is compiled on a GPU. Weights are
    read from the layers, whose hooks are not called."""

    def forward(self, x, rotation, bias, queries=None):
        cos, sin = (narrow(table, self.heads, rotation[2]) for table in rotation[:2])
        layers = self.q_proj, self.k_proj, self.v_proj
        if queries is None:
            q, k, v = project(x, layers, cos, sin, rotated=2)
        else:
            wanted, *tables = (gather_tokens(t, queries) for t in (x, cos, sin))
            (q,) = project(wanted, layers[:1], *tables, rotated=1)
            k, v = project(x, layers[1:], cos, sin, rotated=1)
        by_head = (t.transpose(1, 2) for t in (q, k, v))
        return self.out_proj(self.attend(*by_head, bias).transpose(1, 2).flatten(2))


def narrow(table: Tensor, heads: int, apart: int) -> Tensor:
    """Returns [B, N, 1, dimensions, 2, apart] of a table [B, N, d], which repeats it for each head."""
    return table.unflatten(-1, (heads, -1, 2, apart))[:, :, :1]


def project(x: Tensor, layers: tuple[nn.Linear, ...], cos: Tensor, sin: Tensor, rotated: int):
    """Projects x [B, N, d] by layers d -> d, as one product whose weight is not kept.

    Returns:
        For each layer [B, N, heads, d / heads], those of the first ``rotated`` turned; views of one tensor.
    """
    parameters = [*(a.weight for a in layers), *(a.bias for a in layers)]
    device = x.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        x, *parameters = (t.to(dtype) for t in (x, *parameters))
    return _Projections.apply(rotated, cos, sin, x, *parameters)


@fused_on_gpu(dims=2)
def turn(cos: Tensor, sin: Tensor, rotated: int, *parts: Tensor) -> Tensor:
    """Returns n parts [B, N, heads, head_dim] as [B, N, n, heads, head_dim], the first ``rotated`` of them
    turned by tables [B, N, 1, dimensions, 2, head_dim / dimensions / 2]."""
    pairs = [part.unflatten(-1, cos.shape[3:]) for part in parts[:rotated]]
    turned = [(x * cos).addcmul_(x.roll(1, -2), sin).flatten(-3) for x in pairs]
    return torch.stack([*turned, *parts[rotated:]], 2)


class _Projections(torch.autograd.Function):
    @staticmethod
    def forward(ctx, *inputs):
        # One parameter, *inputs: without gradients, torch.compile (2.13) takes a function with as many
        # parameters as arguments for one without ctx.
        rotated, cos, sin, x, *parameters = inputs
        weights, biases = parameters[: len(parameters) // 2], parameters[len(parameters) // 2 :]
        ctx.save_for_backward(cos, sin, x, *weights)
        ctx.rotated, heads = rotated, x.shape[-1] // cos.shape[3:].numel()
        y = F.linear(x, torch.cat(weights), torch.cat(biases)).unflatten(-1, (len(weights), heads, -1))
        return turn(cos, sin, rotated, *y.unbind(2)).unbind(2)

    @staticmethod
    def backward(ctx, *grads):
        cos, sin, x, *weights = ctx.saved_tensors
        rows = turn(cos, -sin, ctx.rotated, *grads).flatten(2).flatten(0, 1)  # [B * N, layers * d]
        grad_x = (rows @ torch.cat(weights)).view(x.shape)
        grad_weights = (rows.t() @ x.flatten(0, 1)).chunk(len(weights))
        return None, None, None, grad_x, *grad_weights, *rows.sum(0).chunk(len(weights))
