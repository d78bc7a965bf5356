"""Self-attention with rotary positions."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fs_plugins.modules.lean_linear import packed_linear
from fs_plugins.modules.rotary import RotaryEmbedding, rotate
from fs_plugins.modules.state_expansion import gather_tokens


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
        attend: Tensor | None,
        rows: Tensor | None = None,
    ) -> Tensor:
        """x [B, N, d] -> [B, N, d], or [B, R, d] with ``rows``.

        Args:
            rotation: cosines and sines from ``RotaryEmbedding.tables``.
            attend: [B, 1, 1, N] bool, True at keys that may be attended to; None for all.
            rows: [B, R] int64, the tokens whose output is wanted; None for all.
        """
        if rows is None:
            qkv = packed_linear(x, self.q_proj, self.k_proj, self.v_proj)
            qkv = qkv.unflatten(-1, (3, self.num_heads, -1))  # [B, N, 3, H, head_dim]
            q, k = rotate(qkv[:, :, :2], *rotation).unbind(2)
            v = qkv[:, :, 2]
        else:
            q = self.q_proj(gather_tokens(x, rows)).unflatten(-1, (1, self.num_heads, -1))
            q = rotate(q, *(gather_tokens(table, rows) for table in rotation)).squeeze(2)
            kv = packed_linear(x, self.k_proj, self.v_proj).unflatten(-1, (2, self.num_heads, -1))
            k = rotate(kv[:, :, :1], *rotation).squeeze(2)
            v = kv[:, :, 1]
        v = v.clone()  # a view would keep q and k before their rotation alive until the backward pass
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))  # [B, H, N, head_dim]
        dropout = self.dropout if self.training else 0.0
        if 0 < dropout < 1 and q.device.type == "cpu":
            y = attention_with_dropout(q, k, v, attend, dropout)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=attend, dropout_p=dropout)
        return self.out_proj(y.transpose(1, 2).flatten(2))


def attention_with_dropout(q: Tensor, k: Tensor, v: Tensor, attend: Tensor | None, dropout: float) -> Tensor:
    """What ``scaled_dot_product_attention`` computes, faster on a CPU, where that spends more than half its
    time on Bernoulli variables: here a weight takes 16 random bits, and the rate is a multiple of 2^-16.

    Args:
        q, k, v: [B, H, R, head_dim], [B, H, N, head_dim] and the same; half precision is computed in float32.
        attend: as for ``RotarySelfAttention``.
        dropout: of the attention weights, above 0 and below 1.

    Returns:
        [B, H, R, head_dim]
    """
    given = q.dtype
    q, k, v = (t.to(torch.promote_types(given, torch.float32)) for t in (q, k, v))
    scores = (q * q.shape[-1] ** -0.5) @ k.transpose(-1, -2)
    if attend is not None:
        scores = scores.masked_fill(~attend, float("-inf"))
    dropped = min(round(dropout * 65536), 65535)
    words = torch.empty((scores.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: scores.numel()].view(scores.shape)  # from -32768 to 32767
    kept = (bits >= dropped - 32768).to(scores.dtype)
    return ((scores.softmax(-1) * kept) @ (v * (65536 / (65536 - dropped)))).to(given)
