"""The vanilla masked language model of the paper: RoBERTa's heads on an encoder with rotary positions."""

import logging
from collections import OrderedDict

import torch
import torch.nn.functional as F
from fairseq.models import register_model
from fairseq.models.roberta.model import RobertaEncoder, RobertaLMHead, RobertaModel
from torch import Tensor, nn

from fs_plugins.models.flags import MLM_FLAGS, add_flags
from fs_plugins.modules.compilation import MULTIPLE
from fs_plugins.modules.encoder import RotaryEncoder

logger = logging.getLogger(__name__)


class LMHead(RobertaLMHead):
    """RoBERTa's LM head in two steps, so that the step to the vocabulary can be taken in bounded memory."""

    def transform(self, features: Tensor) -> Tensor:
        """Returns what the output matrix is applied to, [..., d]: dense, activation, layer norm."""
        return self.after_dense(self.dense(features))

    def after_dense(self, x: Tensor) -> Tensor:
        return self.layer_norm(self.activation_fn(x))


class RotaryRobertaEncoder(RobertaEncoder):
    """Embedding, rotary encoder and LM head; the layout of the checkpoint is RoBERTa's."""

    def build_encoder(self, args, dictionary, embed_tokens: nn.Embedding) -> RotaryEncoder:
        return RotaryEncoder(args, embed_tokens)

    def build_lm_head(self, embed_dim, output_dim, activation_fn, weight) -> LMHead:
        return LMHead(embed_dim, output_dim, activation_fn, weight)

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        masked_tokens: Tensor | None = None,
        only_first: bool = False,
        **unused,
    ):
        """Returns logits [B, T, V] (with ``masked_tokens`` [masked, V]) or features [B, T, d] (with
        ``only_first`` [B, 1, d], the first token's), and an empty dict."""
        T, pad = src_tokens.shape[1], self.dictionary.pad()
        if self.sentence_encoder.is_compiled:
            src_tokens = F.pad(src_tokens, (0, -T % MULTIPLE), value=pad)
        non_padding_mask = src_tokens.ne(pad)
        query_positions = src_tokens.new_zeros(len(src_tokens), 1) if only_first else None
        coordinates = self.token_coordinates(src_tokens)
        x = self.sentence_encoder(src_tokens, coordinates, non_padding_mask, query_positions)[:, :T]
        return x if features_only else self.lm_head(x, masked_tokens), {}

    def token_coordinates(self, tokens: Tensor) -> Tensor:
        """Returns [B, T, rope_dimensions] int64 of tokens without states: index in the sentence, copy 0."""
        index = torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)
        return torch.stack([index, torch.zeros_like(index)][: self.args.rope_dimensions], dim=-1)


@register_model("p_roberta")
class RotaryRobertaModel(RobertaModel):
    """``--arch p_roberta*``, ``mlm_*``: trained with fairseq's ``masked_lm`` criterion."""

    flags = MLM_FLAGS

    def __init__(self, args, encoder):
        super().__init__(args, encoder)
        embedding = encoder.sentence_encoder.embed_tokens
        nn.init.normal_(embedding.weight, std=args.embedding_init_std)
        nn.init.zeros_(embedding.weight[embedding.padding_idx])
        self.token_heads = nn.ModuleDict()

    def forward(
        self,
        src_tokens: Tensor,
        features_only: bool = False,
        classification_head_name: str | None = None,
        token_head_name: str | None = None,
        **kwargs,
    ):
        """Returns what the encoder does; with ``classification_head_name`` the scores [B, outputs] that this
        head gives each sentence, with ``token_head_name`` those [B, T, outputs] of each token; and a dict."""
        if token_head_name is not None:
            features, extra = self.token_features(src_tokens, **kwargs)
            return self.token_heads[token_head_name](features), extra
        if classification_head_name is not None:  # which reads the first token alone
            features, extra = self.encoder(src_tokens, features_only=True, only_first=True, **kwargs)
            return self.classification_heads[classification_head_name](features), extra
        return self.encoder(src_tokens, features_only, **kwargs)

    def token_features(self, src_tokens: Tensor, **kwargs):
        """Returns features [B, T, d] of the tokens, whatever the encoder makes of these; and a dict."""
        return self.encoder(src_tokens, features_only=True, **kwargs)

    def register_token_head(self, name: str, outputs: int) -> None:
        """Adds a head that gives each token ``outputs`` scores: one linear layer, as BERT's for SQuAD, after
        ``--pooler-dropout``."""
        linear = nn.Linear(self.args.encoder_embed_dim, outputs)
        nn.init.normal_(linear.weight, std=0.02)
        nn.init.zeros_(linear.bias)
        layers = {"dropout": nn.Dropout(self.args.pooler_dropout), "out_proj": linear}
        self.token_heads[name] = nn.Sequential(OrderedDict(layers))

    @classmethod
    def add_args(cls, parser):
        """Adds the flags, with the names and meanings of fairseq's RoBERTa."""
        add_flags(parser, cls.flags)

    @classmethod
    def build_model(cls, args, task):
        """Builds a model from fairseq's arguments. Raises ValueError for combinations that cannot train,
        naming the flag and what would be right."""
        cls.check(args)
        return cls(args, cls.choose_encoder(args)(args, task.source_dictionary))

    @classmethod
    def choose_encoder(cls, args) -> type[RotaryRobertaEncoder]:
        """Returns the class of the encoder of a model with these flags."""
        return RotaryRobertaEncoder

    @classmethod
    def check(cls, args) -> None:
        """Raises a ValueError for flags that do not go together."""

    def upgrade_state_dict_named(self, state_dict, name):
        """Besides fairseq's changes: token heads that only the checkpoint has are registered with
        --load-checkpoint-heads, else left out, with a warning; those that only this model has stay as they
        were initialised."""
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}." if name else ""
        if getattr(self.args, "load_checkpoint_heads", False):
            start, end = f"{prefix}token_heads.", ".out_proj.weight"
            for key in [key for key in state_dict if key.startswith(start) and key.endswith(end)]:
                head = key.removeprefix(start).removesuffix(end)
                if head not in self.token_heads:
                    self.register_token_head(head, len(state_dict[key]))
        own = {f"{prefix}token_heads.{key}": value for key, value in self.token_heads.state_dict().items()}
        for key in [key for key in state_dict if key.startswith(f"{prefix}token_heads.") and key not in own]:
            logger.warning("this model has no such token head, left out of the checkpoint: %s", key)
            del state_dict[key]
        for key, value in own.items():
            state_dict.setdefault(key, value)
