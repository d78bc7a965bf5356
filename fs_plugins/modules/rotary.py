"""Rotary position embedding in one or more dimensions (ExLM, section 4.2)."""

import torch
from torch import Tensor, nn


class RotaryEmbedding(nn.Module):
    """Rotates one part of each head by each of a token's coordinates: in 2D RoPE the first half of the head
    by the first coordinate, the second half by the second.

    Within a part of size h = head_dim / dimensions, dimension j is paired with j + h/2 and turned by
    coordinate * 10000^(-2j/h). One instance serves all layers of an encoder; the frequencies are in the state
    dict (``inv_freq``, [h / 2] float32) and stay float32 when the model becomes half.

    Raises:
        ValueError: if head_dim is not divisible by 2 * dimensions.
    """

    def __init__(self, head_dim: int, dimensions: int = 2):
        super().__init__()
        if head_dim % (2 * dimensions) != 0:
            raise ValueError(
                f"the head size must be divisible by {2 * dimensions} for {dimensions}D RoPE, "
                f"got {head_dim}: choose --encoder-embed-dim / --encoder-attention-heads accordingly"
            )
        part = head_dim // dimensions
        exponents = torch.arange(0, part, 2, dtype=torch.float64) / part
        self.register_buffer("inv_freq", (10000.0**-exponents).float())

    def _apply(self, fn, recurse=True):
        exact = self.inv_freq
        super()._apply(fn, recurse)
        self.inv_freq = exact.to(self.inv_freq.device)  # angles in half precision would be off by whole steps
        return self

    def tables(self, coordinates: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Cosines and sines for tokens at ``coordinates``, [B, N, dimensions] integer.

        Returns:
            Two tensors [B, N, 1, 1, dimensions, h / 2] of ``dtype``, to be broadcast over (q, k) and heads.
        """
        angles = coordinates[..., None].float() * self.inv_freq  # [B, N, dimensions, h / 2]
        angles = angles[:, :, None, None]
        return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotates x [B, N, roles, heads, head_dim] by the angles of ``tables``, the roles (queries and keys)
    alike; same shape and dtype."""
    return _Rotation.apply(x, cos, sin)


class _Rotation(torch.autograd.Function):
    """Keeps no activation: the gradient of a rotation is the rotation back."""

    @staticmethod
    def forward(ctx, x, cos, sin):
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin, 1)

    @staticmethod
    def backward(ctx, grad):
        return _turn(grad, *ctx.saved_tensors, -1), None, None


def _turn(x: Tensor, cos: Tensor, sin: Tensor, direction: int) -> Tensor:
    out = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    dimensions, frequencies = cos.shape[-2:]
    pairs = (dimensions, 2, frequencies)
    a, b = x.unflatten(-1, pairs).unbind(-2)
    out_a, out_b = out.unflatten(-1, pairs).unbind(-2)
    torch.mul(a, cos, out=out_a)
    out_a.addcmul_(b, sin, value=-direction)
    torch.mul(b, cos, out=out_b)
    out_b.addcmul_(a, sin, value=direction)
    return out
