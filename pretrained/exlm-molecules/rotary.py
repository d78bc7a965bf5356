"""Rotary position embedding in one or more dimensions (ExLM, section 4.2)."""

import torch
from torch import Tensor, nn

# Cosines and sines [B, N, 1, dimensions, 2, h / 2], these with a minus for the first of each pair.
Rotation = tuple[Tensor, Tensor]


class RotaryEmbedding(nn.Module):
    """Rotates one part of each head by each of a token's coordinates: in 2D RoPE the first half of the head
    by the first coordinate, the second half by the second.

    Within a part of size h = head_dim / dimensions, dimension j is paired with j + h/2 and turned by
    coordinate * 10000^(-2j/h). ``inv_freq`` [h / 2] stays float32 when the model becomes half. A head_dim has
    to be a multiple of 2 * dimensions.
    """

    def __init__(self, head_dim: int, dimensions: int = 2):
        super().__init__()
        self.apart = head_dim // dimensions // 2
        self.register_buffer("inv_freq", self.frequencies(), persistent=False)

    def frequencies(self) -> Tensor:
        return (
            10000.0 ** (torch.arange(self.apart, dtype=torch.float64, device="cpu") / -self.apart)
        ).float()

    def _apply(self, fn, recurse=True):
        exact = self.inv_freq
        super()._apply(fn, recurse)
        self.inv_freq = exact.to(self.inv_freq.device)  # angles in half precision would be off by whole steps
        return self

    def forward(self, coordinates: Tensor, dtype: torch.dtype) -> Rotation:
        """Returns the rotation of tokens at coordinates [B, N, dimensions] integer, for :func:`rotate`."""
        angles = coordinates[..., None].float() * self.inv_freq  # [B, N, dimensions, h / 2]
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        return tuple(torch.stack(pair, -2)[:, :, None] for pair in ((cos, cos), (-sin, sin)))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Returns x [B, N, d], the queries or keys of all heads, turned by a rotation of ``RotaryEmbedding``."""
    pairs = x.unflatten(-1, (-1, *cos.shape[3:]))  # [B, N, heads, dimensions, 2, h / 2]
    return (pairs * cos).addcmul_(pairs.roll(1, -2), sin).flatten(2)
