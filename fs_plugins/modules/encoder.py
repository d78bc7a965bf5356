"""The transformer encoder that ExLM and the vanilla MLM share, and its layers; their attention comes next."""

from dataclasses import dataclass

import torch
from fairseq import utils
from fairseq.modules import LayerNorm
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fs_plugins.modules.attention import RotarySelfAttention, attention_bias
from fs_plugins.modules.compilation import compile_parts
from fs_plugins.modules.dropout import Dropout
from fs_plugins.modules.fused_linear import gelu_linear
from fs_plugins.modules.rotary import RotaryEmbedding
from fs_plugins.modules.state_expansion import gather_tokens


@dataclass(frozen=True)
class Expansion:
    """Between two layers, each of N tokens becomes a copy of one of the tokens before."""

    layer: int  # how many layers come before it, from 0 to all
    sources: Tensor  # [B, N] int64, the token that each is a copy of
    coordinates: Tensor  # [B, N, rope_dimensions] int64, where each copy stands
    non_padding_mask: Tensor | None  # [B, N] bool, False on padding; None where there is none


class RotaryEncoder(nn.Module):
    """Embedding (not scaled, no positions, no norm) -> dropout -> layers -> layer norm, with rotary
    positions.

    ``args`` are the model's; ``embed_tokens`` is the embedding to use. Activation checkpointing is as in
    fairseq's encoders.
    """

    def __init__(self, args, embed_tokens: nn.Embedding):
        super().__init__()
        self.register_buffer("version", torch.tensor([3.0]))  # of the layout, as fairseq's encoders write it
        self.embed_tokens = embed_tokens
        self.dropout = Dropout(args.dropout)
        self.checkpoint_activations = args.checkpoint_activations
        head_dim = args.encoder_embed_dim // args.encoder_attention_heads
        rot_emb = RotaryEmbedding(head_dim, args.rope_dimensions)
        layers = [RotaryEncoderLayer(args, rot_emb) for _ in range(args.encoder_layers)]
        self.layers = nn.ModuleList(layers)
        self.emb_layer_norm_after = LayerNorm(args.encoder_embed_dim)
        parts = [self] if args.cuda_graph else layers
        self.is_compiled = (args.compile or args.cuda_graph) and compile_parts(parts, args.cuda_graph)

    def forward(
        self,
        tokens: Tensor,
        coordinates: Tensor,
        non_padding_mask: Tensor | None,
        query_positions: Tensor | None = None,
        expansion: Expansion | None = None,
        last_norm: bool = True,
    ) -> Tensor:
        """Encodes a batch.

        Args:
            tokens: [B, N] int64; with ``expansion`` [B, U], its coordinates and padding likewise.
            coordinates: [B, N, rope_dimensions] int64, where each token stands.
            non_padding_mask: [B, N] bool, False on padding; None where there is none.
            query_positions: [B, R] int64, the tokens whose features are wanted: the last layer computes keys
                and values of all tokens, but queries and everything after only for these. None for all.
            expansion: of the U tokens to N, after its first layers; None if all layers see the same tokens.
            last_norm: whether to return the features after ``emb_layer_norm_after``.

        Returns:
            [B, N, d] features ([B, R, d] with ``query_positions``).
        """
        x, layers = self.dropout(self.embed_tokens(tokens)), list(self.layers)
        if expansion is not None:
            first, layers = layers[: expansion.layer], layers[expansion.layer :]
            x = self._run(first, x, coordinates, non_padding_mask, None)
            x = gather_tokens(x, expansion.sources)
            coordinates, non_padding_mask = expansion.coordinates, expansion.non_padding_mask
        x = self._run(layers, x, coordinates, non_padding_mask, query_positions)
        return self.emb_layer_norm_after(x) if last_norm else x

    def _run(
        self,
        layers: list[nn.Module],
        x: Tensor,
        coordinates: Tensor,
        non_padding_mask: Tensor | None,
        query_positions: Tensor | None,
    ) -> Tensor:
        """Returns x [B, N, d] after layers, the last of which gives only ``query_positions``."""
        if not layers:
            return x if query_positions is None else gather_tokens(x, query_positions)
        rotation = self.layers[0].self_attn.rot_emb.tables(coordinates, x.dtype)
        bias = attention_bias(non_padding_mask, x.dtype)
        for layer in layers:
            wanted = query_positions if layer is layers[-1] else None
            if self.checkpoint_activations and self.training:
                x = checkpoint(layer, x, rotation, bias, wanted, use_reentrant=False)
            else:
                x = layer(x, rotation, bias, wanted)
        return x


class RotaryEncoderLayer(nn.Module):
    """Self-attention and feed-forward network, each with a residual connection; pre-norm or post-norm.
    ``args`` are the model's."""

    def __init__(self, args, rot_emb: RotaryEmbedding):
        super().__init__()
        d = args.encoder_embed_dim
        self.normalize_before = args.encoder_normalize_before
        self.self_attn = RotarySelfAttention(d, args.encoder_attention_heads, args.attention_dropout, rot_emb)
        self.self_attn_layer_norm = LayerNorm(d)
        self.fc1 = nn.Linear(d, args.encoder_ffn_embed_dim)
        self.fc2 = nn.Linear(args.encoder_ffn_embed_dim, d)
        self.final_layer_norm = LayerNorm(d)
        self.is_gelu = args.activation_fn == "gelu"
        self.activation_fn = utils.get_activation_fn(args.activation_fn)
        self.dropout = Dropout(args.dropout)
        self.activation_dropout = Dropout(args.activation_dropout)

    def forward(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        bias: Tensor | None,
        query_positions: Tensor | None = None,
    ) -> Tensor:
        """Maps x [B, N, d] to [B, N, d], or with ``query_positions`` [B, R] to only these tokens' output,
        [B, R, d]; see ``RotarySelfAttention`` for the arguments."""
        kept = x if query_positions is None else gather_tokens(x, query_positions)
        if self.normalize_before:
            attended = self.self_attn(self.self_attn_layer_norm(x), rotation, bias, query_positions)
            x = kept + self.dropout(attended)
            return x + self.dropout(self.feed_forward(self.final_layer_norm(x)))
        x = self.self_attn_layer_norm(kept + self.dropout(self.self_attn(x, rotation, bias, query_positions)))
        return self.final_layer_norm(x + self.dropout(self.feed_forward(x)))

    def feed_forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x)
        if self.is_gelu and not (self.training and self.activation_dropout.p > 0.0):
            return gelu_linear(x, self.fc2)
        return self.fc2(self.activation_dropout(self.activation_fn(x)))
