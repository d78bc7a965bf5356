"""The transformer encoder that ExLM and the vanilla MLM share."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from .rotary import RotaryEmbedding, Rotation, rotate

ACTIVATIONS = {  # have fairseq's names
    "gelu": F.gelu,
    "gelu_accurate": partial(F.gelu, approximate="tanh"),
    "gelu_fast": partial(F.gelu, approximate="tanh"),
    "relu": F.relu,
    "tanh": torch.tanh,
    "linear": nn.Identity(),
}


def gather_tokens(x: Tensor, rows: Tensor) -> Tensor:
    """Returns x [B, N, ...], or [1, N, ...] for all, at the indices rows [B, R] int64, [B, R, ...]."""
    first = torch.arange(x.shape[0], device=x.device)[:, None] * x.shape[1]
    return x.flatten(0, 1).index_select(0, (first + rows).flatten()).unflatten(0, rows.shape)


def attention_bias(is_token: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """Returns [B, 1, 1, N], 0 at keys that may be attended to and -inf at padding; None for None."""
    if is_token is None:
        return None
    B, N = is_token.shape
    # Rows at multiples of 16 bytes: for others the fused kernels for CUDA make a copy, in each layer.
    bias = torch.full((B, (N + 7) // 8 * 8), -math.inf, dtype=dtype, device=is_token.device)[:, :N]
    return bias.masked_fill_(is_token, 0.0)[:, None, None]


class Attention(nn.Module):
    """Multi-head self-attention whose queries and keys are rotated; scaled by head_dim^-0.5."""

    def __init__(self, settings):
        super().__init__()
        d = settings.encoder_embed_dim
        self.heads = settings.encoder_attention_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))
        self.dropout = Dropout(settings.attention_dropout)

    def forward(
        self, x: Tensor, rotation: Rotation, bias: Tensor | None, queries: Tensor | None = None
    ) -> Tensor:
        """Maps x [B, N, d] to [B, N, d], or [B, R, d] with ``queries``.

        Args:
            rotation: of ``RotaryEmbedding``.
            bias: [B, 1, 1, N] from :func:`attention_bias`; None if all keys may be attended to.
            queries: [B, R] int64, the tokens whose output is wanted; None for all.
        """
        k, v = rotate(self.k_proj(x), *rotation), self.v_proj(x)
        if queries is not None:
            x, *rotation = (gather_tokens(t, queries) for t in (x, *rotation))
        q = rotate(self.q_proj(x), *rotation)
        by_head = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        return self.out_proj(self.attend(*by_head, bias).transpose(1, 2).flatten(2))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None) -> Tensor:
        """Returns [B, H, R, head_dim] of queries [B, H, R, head_dim], keys and values [B, H, N, head_dim]."""
        rate = self.dropout.p if self.training else 0.0
        if rate and q.device.type == "cpu":  # where the library's keeps another tensor of weights
            weights = (q * q.shape[-1] ** -0.5) @ k.transpose(-2, -1)
            weights = (weights if bias is None else weights + bias).softmax(-1)
            return self.dropout(weights) @ v
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=rate)


class Dropout(nn.Dropout):
    """Dropout that keeps a byte of each element for the backward pass, on CPUs too."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.native_dropout(x, self.p, True)[0] if self.training and self.p > 0 else x


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward network, each with a residual connection; pre-norm or post-norm."""

    def __init__(self, settings):
        super().__init__()
        d, ffn = settings.encoder_embed_dim, settings.encoder_ffn_embed_dim
        self.norm_first = settings.encoder_normalize_before
        self.activation = ACTIVATIONS[settings.activation_fn]
        self.self_attn = Attention(settings)
        self.self_attn_layer_norm = nn.LayerNorm(d)
        self.fc1, self.fc2 = nn.Linear(d, ffn), nn.Linear(ffn, d)
        self.final_layer_norm = nn.LayerNorm(d)
        self.dropout = Dropout(settings.dropout)
        self.activation_dropout = Dropout(settings.activation_dropout)

    def forward(
        self, x: Tensor, rotation: Rotation, bias: Tensor | None, queries: Tensor | None = None
    ) -> Tensor:
        """Maps x [B, N, d] to [B, N, d], or with ``queries`` [B, R] to only these tokens' output, [B, R, d];
        see :class:`Attention` for the arguments."""
        kept = x if queries is None else gather_tokens(x, queries)
        if self.norm_first:
            x = kept + self.dropout(self.self_attn(self.self_attn_layer_norm(x), rotation, bias, queries))
            return x + self.dropout(self.feed_forward(self.final_layer_norm(x)))
        x = self.self_attn_layer_norm(kept + self.dropout(self.self_attn(x, rotation, bias, queries)))
        return self.final_layer_norm(x + self.dropout(self.feed_forward(x)))

    def feed_forward(self, x: Tensor) -> Tensor:
        """Maps x to the same shape. In training, activations are computed again in the backward pass: with a
        feed-forward size of 4 d they are a fifth of what a layer keeps, and no matrix product is repeated."""

        def second_half(x: Tensor) -> Tensor:
            return self.fc2(self.activation_dropout(self.activation(x)))

        x = self.fc1(x)
        if not self.training or self.activation_dropout.p > 0.0:
            return second_half(x)
        return checkpoint(second_half, x, use_reentrant=False, preserve_rng_state=False)


class Encoder(nn.Module):
    """Embedding (not scaled, no positions, no norm) -> dropout -> layers, with rotary positions; the caller
    applies the last layer norm, ``emb_layer_norm_after``."""

    def __init__(self, settings):
        super().__init__()
        d = settings.encoder_embed_dim
        self.embed_tokens = nn.Embedding(settings.vocab_size, d, settings.pad_token_id)
        self.dropout = Dropout(settings.dropout)
        self.rotary = RotaryEmbedding(d // settings.encoder_attention_heads, settings.rope_dimensions)
        self.layers = nn.ModuleList(EncoderLayer(settings) for _ in range(settings.encoder_layers))
        self.emb_layer_norm_after = nn.LayerNorm(d)
        self.gradient_checkpointing = False  # whether the backward pass computes the layers again

    def forward(
        self, tokens: Tensor, coordinates: Tensor, is_token: Tensor | None, queries: Tensor | None = None
    ) -> Tensor:
        """Encodes a batch.

        Args:
            tokens: [B, N] int64.
            coordinates: [B, N, rope_dimensions] int64, where each token stands; [1, ...] if all stand alike.
            is_token: [B, N] bool, False on padding; None where there is none.
            queries: [B, R] int64, the tokens whose features are wanted: the last layer computes keys and
                values of all tokens, but queries and everything after only for these. None for all.

        Returns:
            [B, N, d] features before the last layer norm ([B, R, d] with ``queries``).
        """
        x = self.dropout(self.embed_tokens(tokens))
        rotation, bias = self.rotary(coordinates, x.dtype), attention_bias(is_token, x.dtype)
        for layer in self.layers:
            wanted = queries if layer is self.layers[-1] else None
            if self.gradient_checkpointing and self.training:
                x = checkpoint(layer, x, rotation, bias, wanted, use_reentrant=False)
            else:
                x = layer(x, rotation, bias, wanted)
        return x
