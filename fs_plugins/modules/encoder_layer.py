"""One transformer layer."""

from fairseq import utils
from fairseq.modules import FairseqDropout, LayerNorm
from torch import Tensor, nn

from fs_plugins.modules.attention import RotarySelfAttention
from fs_plugins.modules.fused_linear import gelu_linear
from fs_plugins.modules.rotary import RotaryEmbedding
from fs_plugins.modules.state_expansion import gather_tokens


class RotaryEncoderLayer(nn.Module):
    """Self-attention and feed-forward network, each with a residual connection; pre-norm or post-norm.

    ``args`` are the model's: encoder_embed_dim, encoder_ffn_embed_dim, encoder_attention_heads,
    encoder_normalize_before, activation_fn, dropout, attention_dropout, activation_dropout.
    """

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
        self.dropout = FairseqDropout(args.dropout, module_name=self.__class__.__name__)
        self.activation_dropout = FairseqDropout(args.activation_dropout, module_name=self.__class__.__name__)

    def forward(
        self,
        x: Tensor,
        rotation: tuple[Tensor, Tensor],
        bias: Tensor | None,
        query_positions: Tensor | None = None,
    ) -> Tensor:
        """x [B, N, d] -> [B, N, d], or with ``query_positions`` [B, R] only these tokens' output, [B, R, d];
        see ``RotarySelfAttention`` for the arguments."""
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
