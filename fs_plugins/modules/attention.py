"""Self-attention with rotary positions."""

import torch.nn.functional as F
from torch import Tensor, nn

from fs_plugins.modules.lean_linear import packed_linear
from fs_plugins.modules.rotary import RotaryEmbedding, rotate


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

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor], attend: Tensor | None) -> Tensor:
        """x [B, N, d] -> [B, N, d].

        Args:
            rotation: cosines and sines from ``RotaryEmbedding.tables``.
            attend: [B, 1, 1, N] bool, True at keys that may be attended to; None for all.
        """
        qkv = packed_linear(x, self.q_proj, self.k_proj, self.v_proj)
        qkv = qkv.unflatten(-1, (3, self.num_heads, -1))  # [B, N, 3, H, head_dim]
        qk = rotate(qkv[:, :, :2], *rotation)
        v = qkv[
            :, :, 2
        ].clone()  # a view would keep q and k before their rotation alive until the backward pass
        q, k, v = (t.transpose(1, 2) for t in (qk[:, :, 0], qk[:, :, 1], v))  # [B, H, N, head_dim]
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=attend, dropout_p=dropout)
        return self.out_proj(y.transpose(1, 2).flatten(2))
