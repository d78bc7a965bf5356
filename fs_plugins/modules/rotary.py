"""Rotary position embedding in one or more dimensions (ExLM, section 4.2)."""

import torch
from torch import Tensor, nn


class RotaryEmbedding(nn.Module):
    """Rotates one part of each head by each of a token's coordinates: in 2D RoPE the first half of the head
    by the first coordinate, the second half by the second.

    Within a part of size h = head_dim / dimensions, dimension j is paired with j + h/2 and turned by
    coordinate * 10000^(-2j/h). One instance serves all layers of an encoder; the frequencies are in the state
    dict (``inv_freq``, [h / 2] float32) and stay float32 when the model becomes half. A head_dim has to be a
    multiple of 2 * dimensions.
    """

    def __init__(self, head_dim: int, dimensions: int = 2):
        super().__init__()
        part = head_dim // dimensions
        exponents = torch.arange(0, part, 2, dtype=torch.float64) / part
        self.register_buffer("inv_freq", (10000.0**-exponents).float())

    def _apply(self, fn, recurse=True):
        exact = self.inv_freq
        super()._apply(fn, recurse)
        self.inv_freq = exact.to(self.inv_freq.device)  # angles in half precision would be off by whole steps
        return self

    def tables(self, coordinates: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Computes cosines and sines for tokens at ``coordinates``, [B, N, dimensions] integer.

        Returns:
            Two tensors [B, N, 1, 1, dimensions, 2, h / 2] of ``dtype``, to be broadcast over (q, k) and
            heads. Sines have a minus where they belong to the first of a pair.
        """
        angles = coordinates[..., None, None].float() * self.inv_freq  # [B, N, dimensions, 1, h / 2]
        sin = angles.sin()
        tables = angles.cos().expand(-1, -1, -1, 2, -1), torch.cat([-sin, sin], 3)
        return tuple(table.to(dtype)[:, :, None, None] for table in tables)


def rotate_(x: Tensor, cos: Tensor, sin: Tensor, back: bool = False) -> Tensor:
    """Rotates x [B, N, roles, heads, head_dim] in place by the angles of ``tables``, or by minus these; the
    roles (queries and keys) alike."""
    pairs = x.unflatten(-1, cos.shape[-3:])
    swapped = pairs.flip(-2)
    pairs.mul_(cos).addcmul_(swapped, sin, value=-1 if back else 1)
    return x
