"""Self-attention with rotary positions."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fs_plugins.modules.dropout import is_fast, random_mask
from fs_plugins.modules.fused_linear import rotary_projections
from fs_plugins.modules.rotary import RotaryEmbedding
from fs_plugins.modules.state_expansion import gather_tokens


def attention_bias(non_padding_mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Returns [B, 1, 1, N], 0 at keys that may be attended to and -inf at padding; None for None."""
    if non_padding_mask is None:
        return None
    B, N = non_padding_mask.shape
    # Rows at multiples of 16 bytes: for others the fused kernels for CUDA make a copy, in each layer.
    bias = torch.full((B, -(-N // 8) * 8), -math.inf, dtype=dtype, device=non_padding_mask.device)[:, :N]
    return bias.masked_fill_(non_padding_mask, 0.0)[:, None, None]


class RotarySelfAttention(nn.Module):
    """Multi-head self-attention whose queries and keys are rotated; scaled by head_dim^-0.5.

    The checkpoint keeps three projections; at run time they are one matrix product.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float, rot_emb: RotaryEmbedding):
        super().__init__()
        self.num_heads = num_heads
        self.dropout = dropout
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.rot_emb = rot_emb

    def forward(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        bias: Tensor | None,
        query_positions: Tensor | None = None,
    ) -> Tensor:
        """Maps x [B, N, d] to [B, N, d], or [B, R, d] with ``query_positions``.

        Args:
            rotation: cosines and sines from ``RotaryEmbedding.tables``.
            bias: [B, 1, 1, N] from :func:`attention_bias`; None if all keys may be attended to.
            query_positions: [B, R] int64, the tokens whose output is wanted; None for all.
        """
        layers = [self.q_proj, self.k_proj, self.v_proj]
        if query_positions is None:
            q, k, v = rotary_projections(x, layers, self.num_heads, rotation, rotated=2)
        else:
            of_queries = [gather_tokens(t, query_positions) for t in (x, *rotation)]
            (q,) = rotary_projections(of_queries[0], layers[:1], self.num_heads, of_queries[1:], rotated=1)
            k, v = rotary_projections(x, layers[1:], self.num_heads, rotation, rotated=1)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))  # [B, H, N, head_dim]
        dropout = self.dropout if self.training else 0.0
        if is_fast(q, dropout):
            y = attention_with_dropout(q, k, v, bias, dropout)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=dropout)
        return self.out_proj(y.transpose(1, 2).flatten(2))


def attention_with_dropout(q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None, dropout: float) -> Tensor:
    """Computes what ``scaled_dot_product_attention`` does, faster on a CPU, where that spends more than half
    its time on Bernoulli variables.

    Args:
        q, k, v: [B, H, R, head_dim], [B, H, N, head_dim] and the same; half precision is computed in float32.
        bias: [B, 1, 1, N], added to the scores; None for nothing.
        dropout: of the attention weights, above 0 and below 1.

    Returns:
        [B, H, R, head_dim]
    """
    dtype = torch.promote_types(q.dtype, torch.float32)
    with torch.autocast(q.device.type, enabled=False):
        scores = (q.to(dtype) * q.shape[-1] ** -0.5) @ k.to(dtype).mT
        if bias is not None:
            scores.add_(bias)
        dropped, scale = random_mask(scores.shape, dropout)
        weights = scores.softmax(-1).masked_fill(dropped, 0.0)
        return (weights @ (v.to(dtype) * scale)).to(q.dtype)
