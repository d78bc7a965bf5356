"""The transformer encoder that ExLM and the vanilla MLM share."""

import torch
from fairseq.modules import FairseqDropout, LayerDropModuleList, LayerNorm
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from fs_plugins.modules.attention import take_rows
from fs_plugins.modules.encoder_layer import RotaryEncoderLayer
from fs_plugins.modules.rotary import RotaryEmbedding


class RotaryEncoder(nn.Module):
    """Embedding (not scaled, no positions, no norm) -> dropout -> layers -> layer norm, with rotary
    positions.

    ``args`` are the model's; ``embed_tokens`` is the embedding to use, ``rope_dimensions`` the number of
    coordinates of a token. Layer drop and activation
    checkpointing as fairseq's encoders have them.

    Raises:
        ValueError: if the hidden size does not divide into heads of a size that can be rotated.
    """

    def __init__(self, args, embed_tokens: nn.Embedding, rope_dimensions: int = 2):
        super().__init__()
        self.register_buffer("version", torch.tensor([3.0]))  # of the layout, as fairseq's encoders write it
        self.embed_tokens = embed_tokens
        self.dropout = FairseqDropout(args.dropout, module_name=self.__class__.__name__)
        self.checkpoint_activations = args.checkpoint_activations
        head_dim, rest = divmod(args.encoder_embed_dim, args.encoder_attention_heads)
        if rest:
            raise ValueError(
                f"--encoder-embed-dim {args.encoder_embed_dim} is not divisible by "
                f"--encoder-attention-heads {args.encoder_attention_heads}"
            )
        rot_emb = RotaryEmbedding(head_dim, rope_dimensions)
        layers = [RotaryEncoderLayer(args, rot_emb) for _ in range(args.encoder_layers)]
        self.layers = (
            LayerDropModuleList(args.encoder_layerdrop, layers)
            if args.encoder_layerdrop > 0.0
            else nn.ModuleList(layers)
        )
        self.emb_layer_norm_after = LayerNorm(args.encoder_embed_dim)

    @property
    def rot_emb(self) -> RotaryEmbedding:
        """The rotary embedding of all layers."""
        return self.layers[0].self_attn.rot_emb

    def forward(
        self,
        tokens: Tensor,
        coordinates: Tensor,
        is_token: Tensor | None,
        return_all_hiddens: bool = False,
        rows: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor] | None]:
        """Encodes a batch.

        Args:
            tokens: [B, N] int64.
            coordinates: [B, N, rope_dimensions] int64, where each token stands.
            is_token: [B, N] bool, False on padding; None where there is none.
            return_all_hiddens: also return the embedding and each layer's output.
            rows: [B, R] int64, the tokens whose features are wanted: the last layer computes keys and values
                of all tokens, but queries and everything after only for these. None for all.

        Returns:
            [B, N, d] features ([B, R, d] with ``rows``), and None or the list of [N, B, d] hidden states
            (fairseq's order).
        """
        x = self.dropout(self.embed_tokens(tokens))
        rotation = self.rot_emb.tables(coordinates, x.dtype)
        attend = None if is_token is None else is_token[:, None, None, :]
        hiddens = [x.transpose(0, 1)] if return_all_hiddens else None
        layers = list(self.layers)  # layer drop chooses anew each time
        early = rows is not None and hiddens is None and layers
        for layer in layers:
            wanted = rows if early and layer is layers[-1] else None
            if self.checkpoint_activations and self.training:
                x = checkpoint(layer, x, rotation, attend, wanted, use_reentrant=False)
            else:
                x = layer(x, rotation, attend, wanted)
            if hiddens is not None:
                hiddens.append(x.transpose(0, 1))
        if rows is not None and not early:
            x = take_rows(x, rows)
        return self.emb_layer_norm_after(x), hiddens
