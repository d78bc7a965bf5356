"""The vanilla masked language model of the paper for fairseq, with the heads of fairseq's RoBERTa."""

import logging
from collections import OrderedDict
from dataclasses import fields

import torch
from fairseq.models import BaseFairseqModel, register_model
from fairseq.models.roberta.model import RobertaModel
from fairseq.modules.transformer_sentence_encoder import init_bert_params
from torch import Tensor, nn

from fs_plugins.exlm.model import MLM
from fs_plugins.exlm.settings import MLMSettings
from fs_plugins.models.flags import MLM_FLAGS, add_flags

logger = logging.getLogger(__name__)
VERSION, FREQUENCIES = "version", "self_attn.rot_emb.inv_freq"  # buffers of the authors' checkpoints


@register_model("p_roberta")
class RotaryRobertaModel(RobertaModel):
    """``--arch p_roberta*``, ``mlm_*``: trained with fairseq's ``masked_lm`` criterion.

    ``encoder`` is the model of exlm/, whose parameters have the authors' names, with the dictionary.
    """

    flags, settings, network = MLM_FLAGS, MLMSettings, MLM

    def __init__(self, args, encoder: MLM, dictionary):
        BaseFairseqModel.__init__(self)  # skips RobertaModel's, whose encoder is another class
        self.args, self.encoder, self.dictionary = args, encoder, dictionary
        self.classification_heads, self.token_heads = nn.ModuleDict(), nn.ModuleDict()
        self.initialise()
        encoder.sentence_encoder.gradient_checkpointing = args.checkpoint_activations
        encoder.sentence_encoder.register_state_dict_post_hook(add_authors_buffers)

    def initialise(self) -> None:
        """Draws the initial weights."""
        self.apply(init_bert_params)
        embedding = self.encoder.sentence_encoder.embed_tokens
        nn.init.normal_(embedding.weight, std=self.args.embedding_init_std)
        nn.init.zeros_(embedding.weight[embedding.padding_idx])

    def forward(
        self,
        src_tokens: Tensor,
        src_lengths: Tensor | None = None,  # this and src_id are of fairseq's batches, and not read
        src_id: Tensor | None = None,
        features_only: bool = False,
        classification_head_name: str | None = None,
        token_head_name: str | None = None,
        **options,
    ):
        """Returns the outputs of :meth:`predict`, or with ``features_only`` the :meth:`features`; with
        ``classification_head_name`` the scores [B, outputs] that this head gives each sentence, with
        ``token_head_name`` those [B, T, outputs] of each token; and a dict."""
        if token_head_name is not None:
            return self.token_heads[token_head_name](self.features(src_tokens)), {}
        if classification_head_name is not None:  # the head reads the first token alone
            first = self.features(src_tokens, only_first=True)
            return self.classification_heads[classification_head_name](first), {}
        if features_only:
            return self.features(src_tokens), {}
        return self.predict(src_tokens, **options)

    def predict(self, src_tokens: Tensor, masked_tokens: Tensor | None = None):
        """Returns logits [B, T, V] (with ``masked_tokens`` [masked, V]), and an empty dict."""
        return self.encoder(src_tokens, masked_tokens), {}

    def features(self, src_tokens: Tensor, only_first: bool = False) -> Tensor:
        """Returns features [B, T, d] of the tokens, or with ``only_first`` [B, 1, d] of the first one."""
        return self.encoder.features(src_tokens, only_first)

    def max_positions(self) -> int:
        return self.args.max_positions

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
        d = task.source_dictionary
        ids = {"bos": d.bos(), "pad": d.pad(), "eos": d.eos(), "unk": d.unk(), "mask": d.index("<mask>")}
        settings = cls.settings(
            vocab_size=len(d),
            **{f"{name}_token_id": index for name, index in ids.items()},
            **{one.name: getattr(args, one.name) for one in fields(cls.settings) if one.metadata},
        )
        settings.validate_settings()
        return cls(args, cls.network(settings), d)

    def upgrade_state_dict_named(self, state_dict, name):
        """Besides fairseq's changes: token heads that only the checkpoint has are registered with
        --load-checkpoint-heads, else left out, with a warning; those that only this model has stay as they
        were initialised. The authors' buffers are computed here."""
        super().upgrade_state_dict_named(state_dict, name)
        prefix = f"{name}." if name else ""
        encoder, heads = f"{prefix}encoder.sentence_encoder.", f"{prefix}token_heads."
        for key in [key for key in state_dict if key == encoder + VERSION or key.endswith(FREQUENCIES)]:
            del state_dict[key]
        if getattr(self.args, "load_checkpoint_heads", False):
            end = ".out_proj.weight"
            for key in [key for key in state_dict if key.startswith(heads) and key.endswith(end)]:
                head = key.removeprefix(heads).removesuffix(end)
                if head not in self.token_heads:
                    self.register_token_head(head, len(state_dict[key]))
        initial = {heads + key: value for key, value in self.token_heads.state_dict().items()}
        for key in [key for key in state_dict if key.startswith(heads) and key not in initial]:
            logger.warning("this model has no such token head, left out of the checkpoint: %s", key)
            del state_dict[key]
        for key, value in initial.items():
            state_dict.setdefault(key, value)


def add_authors_buffers(encoder: nn.Module, state: dict, prefix: str, metadata) -> None:
    """Adds to an encoder's state the buffers of the authors' checkpoints."""
    state[prefix + VERSION] = torch.tensor([3.0], device=encoder.embed_tokens.weight.device)
    for i in range(len(encoder.layers)):
        state[f"{prefix}layers.{i}.{FREQUENCIES}"] = encoder.rotary.inv_freq
