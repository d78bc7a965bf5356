"""ExLM for transformers. What it imports of this package lies beside it in an export, but for the compiled
operator, which is used where the package is installed.

Each ``<s>``, ``</s>`` and masked token is k states inside the model; outputs have one row for each token,
that of its first state if it has states. B sequences of T tokens become N tokens and states, of which L are
the nodes of the graph; V is the size of the vocabulary. ``encoder`` is the model of exlm/.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import BaseModelOutput, MaskedLMOutput, SequenceClassifierOutput
from transformers.utils import can_return_tuple

from .alignment import dag_loss_reference, gathered_scores, word_log_probs
from .encoder import ACTIVATIONS, gather_tokens
from .model import ExLM, LMHead
from .rotary import RotaryEmbedding
from .transitions import LOG_ZERO
from .configuration_exlm import ExLMConfig

IGNORED = -100  # label of tokens that are not to be predicted


def dag_loss(*arguments):
    """Calls the compiled operator, where this package is installed, which the first loss imports."""
    try:
        from fs_plugins.custom_ops.dag_loss import dag_loss
    except ImportError:
        return dag_loss_reference(*arguments)
    return dag_loss(*arguments)


@dataclass
class ExLMMaskedLMOutput(MaskedLMOutput):
    """Outputs of a masked language model.

    Attributes:
        loss: with labels, in nats for each target (``<s>`` and ``</s>`` are targets too): of each sentence
            divided by its number of targets, and their mean.
        logits: [B, T, V]; None in training with labels. At a masked token log P(its word), the exact marginal
            over all paths that have one word for each mask; elsewhere scores of the LM head, which were not
            trained.
        links: [B, L, L] log-probabilities of the transitions, -1e30 where there is none.
        node_logits: [B, L, V] scores of the vocabulary at each node.
    """

    links: Tensor | None = None
    node_logits: Tensor | None = None


class ExLMPreTrainedModel(PreTrainedModel):
    config_class = ExLMConfig
    supports_gradient_checkpointing = True
    accepts_loss_kwargs = False  # losses are means: Trainer divides them by its accumulation steps
    has_lm_head = False
    _supports_sdpa = True
    _no_split_modules = ["EncoderLayer"]
    # Heads of other tasks.
    _keys_to_ignore_on_load_unexpected = [r"^classifier\.|^encoder\.(?!sentence_encoder\.)"]

    def __init__(self, config):
        super().__init__(config)
        self.encoder = ExLM(config, self.has_lm_head)
        self.add_head(config)
        self.post_init()

    def add_head(self, config):
        """Adds a subclass's head to the encoder."""

    def get_input_embeddings(self):
        return self.encoder.sentence_encoder.embed_tokens

    def _init_weights(self, module):
        super()._init_weights(module)
        if isinstance(module, RotaryEmbedding):
            init.copy_(module.inv_freq, module.frequencies())
        elif isinstance(module, LMHead):
            init.zeros_(module.bias)

    def encode(self, input_ids, attention_mask=None, labels=None):
        """Encodes input_ids [B, T], padded on the right; attention_mask [B, T] is 0 on padding. With labels
        [B, T], the tokens that have one are expanded; else the ``<mask>`` tokens.

        Returns:
            The features of tokens and states [B, N, d] before the last layer norm; those of each token, of
            its first state if it has several, [B, T, d] after it; and where the states stand, a StateLayout.

        Raises:
            ValueError: for a sequence that is not padded on the right, lacks ``<s>``, or is longer than
                ``max_positions`` after its expansion.
        """
        pad, targets = self.config.pad_token_id, None
        if attention_mask is not None:  # a <pad> that is seen was drawn at random, by a collator
            unknown = input_ids.eq(pad) & attention_mask.bool()
            input_ids = input_ids.masked_fill(unknown, self.config.unk_token_id)
            input_ids = input_ids.masked_fill(attention_mask == 0, pad)
        if (input_ids[:, :-1].eq(pad) & input_ids[:, 1:].ne(pad)).any():
            raise ValueError('there is padding before a token: set tokenizer.padding_side = "right"')
        if labels is not None:
            targets = labels.masked_fill(labels == IGNORED, pad)
        layout = self.encoder.expand(input_ids, targets)
        if layout.tokens.shape[1] > (most := self.config.max_positions):
            raise ValueError(
                f"{input_ids.shape[1]} tokens take {layout.tokens.shape[1]} positions, as some have several, "
                f"and the model has {most}: tokenize with truncation=True, or mask less"
            )
        x = self.encoder.encode(layout)
        return x, gather_tokens(self.encoder.norm(x), layout.first_states), layout


class ExLMModel(ExLMPreTrainedModel):
    """The encoder: ``last_hidden_state`` [B, T, d], one row for each of ``input_ids``."""

    @can_return_tuple
    def forward(self, input_ids, attention_mask=None, **ignored):
        """See :meth:`encode` for the arguments; others of transformers change nothing."""
        return BaseModelOutput(self.encode(input_ids, attention_mask)[1])


class ExLMForMaskedLM(ExLMPreTrainedModel):
    """Masked language modelling; see :class:`ExLMMaskedLMOutput`."""

    has_lm_head = True
    _tied_weights_keys = {"encoder.lm_head.weight": "encoder.sentence_encoder.embed_tokens.weight"}

    @can_return_tuple
    def forward(self, input_ids, attention_mask=None, labels=None, **ignored):
        """labels [B, T]: the original token where one is to be predicted (whether it was replaced by
        ``<mask>``, by another one, or kept), else -100. In training, with labels, there are no logits."""
        x, rows, layout = self.encode(input_ids, attention_mask, labels)
        graph = self.encoder.link(gather_tokens(x, layout.node_positions), layout)
        node_logits = graph.logits()
        log_probs = node_logits.float().log_softmax(-1)  # [B, L, V]
        links, loss, logits = graph.links.clamp(min=LOG_ZERO), None, None
        if labels is not None:
            match = gathered_scores(log_probs, layout.targets)
            likelihoods = dag_loss(match, graph.links, layout.node_lengths, layout.target_lengths)
            loss = (-likelihoods / layout.target_lengths).mean()
        if labels is None or not self.training:
            with torch.autocast(log_probs.device.type, enabled=False):
                marginals = word_log_probs(log_probs, links, layout.node_lengths, layout.target_lengths)
            logits = at_targets(self.encoder.lm_head(rows).float(), marginals, layout)
        return ExLMMaskedLMOutput(loss, logits, links=links, node_logits=node_logits)


def at_targets(logits, marginals, layout):
    """Returns logits [B, T, V], replaced by marginals [B, M, V] at each target's token."""
    k = layout.node_sources.shape[1] // marginals.shape[1]
    order = torch.arange(marginals.shape[1], device=logits.device)
    sentence, target = (order < layout.target_lengths[:, None]).nonzero(as_tuple=True)
    token = layout.node_sources[:, ::k][sentence, target]
    given = token < logits.shape[1]  # leaves out an appended </s>
    sentence, target, token = sentence[given], target[given], token[given]
    return logits.index_put((sentence, token), marginals[sentence, target])


class ExLMClassificationHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dropout = nn.Dropout(config.pooler_dropout)
        self.dense = nn.Linear(config.encoder_embed_dim, config.encoder_embed_dim)
        self.activation = ACTIVATIONS[config.pooler_activation_fn]
        self.out_proj = nn.Linear(config.encoder_embed_dim, config.num_labels)

    def forward(self, x):
        """Returns [B, labels] of x [B, d]."""
        return self.out_proj(self.dropout(self.activation(self.dense(self.dropout(x)))))


class ExLMForSequenceClassification(ExLMPreTrainedModel):
    """Classes or values of sequences, from the first state of ``<s>``."""

    def add_head(self, config):
        self.classifier = ExLMClassificationHead(config)

    @can_return_tuple
    def forward(self, input_ids, attention_mask=None, labels=None, **ignored):
        """labels: [B] int64 classes; or [B, labels] float, of values if ``config.problem_type`` is
        "regression" (default of one label), else of classes that are right or not."""
        logits, loss = self.classifier(self.encode(input_ids, attention_mask)[1][:, 0]), None
        if labels is not None and not labels.is_floating_point():
            loss = F.cross_entropy(logits, labels.view(-1))
        elif labels is not None:
            problem = self.config.problem_type
            is_value = problem == "regression" if problem else logits.shape[1] == 1
            function = F.mse_loss if is_value else F.binary_cross_entropy_with_logits
            loss = function(logits, labels.view_as(logits))
        return SequenceClassifierOutput(loss, logits)
