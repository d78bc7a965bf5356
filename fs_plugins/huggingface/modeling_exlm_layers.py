"""Parts of ExLM for transformers, and the checks of its input."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.modeling_outputs import ModelOutput
from transformers.utils.import_utils import is_torchdynamo_exporting

from fs_plugins.modules.marginals import NEVER
from fs_plugins.modules.state_expansion import DISTANCES, distance_buckets
from fs_plugins.modules.transition_head import edge_mask, transition_log_probs

IGNORED = -100  # the label of what is not to be predicted


class ExLMAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.config, self.heads = config, config.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj, self.out_proj = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, rotation, mask):
        q, k, v = rotate(self.q_proj(x), *rotation), rotate(self.k_proj(x), *rotation), self.v_proj(x)
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in (q, k, v))
        dropout = self.config.attention_probs_dropout_prob if self.training else 0.0
        if self.config._attn_implementation == "eager":
            scores = (q @ k.transpose(2, 3)) * q.shape[-1] ** -0.5
            scores = scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
            weights = scores.softmax(-1)
            y = F.dropout(weights, dropout, self.training) @ v
        else:
            y, weights = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout), None
        return self.out_proj(y.transpose(1, 2).flatten(2)), weights


class ExLMLayer(GradientCheckpointingLayer):
    def __init__(self, config):
        super().__init__()
        d = config.hidden_size
        self.norm_first, self.activation = config.norm_first, ACT2FN[config.hidden_act]
        self.self_attn = ExLMAttention(config)
        self.self_attn_layer_norm = nn.LayerNorm(d, config.layer_norm_eps)
        self.fc1, self.fc2 = nn.Linear(d, config.intermediate_size), nn.Linear(config.intermediate_size, d)
        self.final_layer_norm = nn.LayerNorm(d, config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.activation_dropout = nn.Dropout(config.activation_dropout)

    def forward(self, x, rotation, mask):
        y, weights = self.self_attn(self.self_attn_layer_norm(x) if self.norm_first else x, rotation, mask)
        x = x + self.dropout(y)
        x = x if self.norm_first else self.self_attn_layer_norm(x)
        y = self.fc1(self.final_layer_norm(x) if self.norm_first else x)
        x = x + self.dropout(self.fc2(self.activation_dropout(self.activation(y))))
        return (x if self.norm_first else self.final_layer_norm(x)), weights


class ExLMHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.hidden_act]
        self.layer_norm = nn.LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)

    def forward(self, x):
        return self.decoder(self.layer_norm(self.activation(self.dense(x))))


class ExLMGraph(nn.Module):
    """Log-probabilities of the transitions between nodes."""

    def __init__(self, config):
        super().__init__()
        self.config, d, width = config, config.hidden_size, config.hidden_size * len(config.links_features)
        if "position" in config.links_features:
            rows = config.max_position_embeddings + config.pad_token_id + 1  # from pad + 1, as in fairseq
            self.link_positional = nn.Embedding(rows, d, config.pad_token_id)
        if "distance" in config.links_features:
            self.link_distance = nn.Embedding(2 * DISTANCES, d)
        self.query_linear, self.key_linear = nn.Linear(width, d), nn.Linear(width, d)
        self.gate_linear = nn.Linear(width, config.num_attention_heads)

    def forward(self, nodes, layout):
        """Returns [B, L, L] float32 or float64 of nodes [B, L, d]; ``NEVER`` where there is no edge."""
        config, L = self.config, nodes.shape[1]
        parts = {"feature": nodes}
        if "position" in config.links_features:
            parts["position"] = self.link_positional(layout.node_positions + config.pad_token_id + 1)
        if "distance" in config.links_features:
            distances = self.link_distance(distance_buckets(layout.node_sources[:, :: config.num_states]))
            parts["distance"] = distances.sum(2).repeat_interleave(config.num_states, 1)
        x = torch.cat([parts[name] for name in config.links_features], -1)
        edges = edge_mask(
            layout.node_lengths, L, config.num_states, config.state_graph, config.max_transition_length
        )
        links = transition_log_probs(self.query_linear(x), self.key_linear(x), self.gate_linear(x), edges)
        return links.masked_fill(~edges, NEVER)


class ExLMClassificationHead(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dropout = nn.Dropout(config.classifier_dropout)
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = ACT2FN[config.classifier_activation]
        self.out_proj = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, x):
        """Returns [B, labels] of x [B, d]."""
        return self.out_proj(self.dropout(self.activation(self.dense(self.dropout(x)))))


@dataclass
class ExLMMaskedLMOutput(ModelOutput):
    """Outputs of a masked language model.

    Attributes:
        loss: with labels; see :class:`ExLMForMaskedLM`.
        logits: [B, T, V]; None in training with labels. With states: at a masked token, log P(its word), the
            exact marginal over all paths that have one word for each mask; elsewhere scores of the LM head,
            which were not trained.
        links: [B, L, L] log-probabilities of the transitions, -1e4 where there is none.
        node_logits: [B, L, V] scores of the vocabulary at each node.
        hidden_states, attentions: see :class:`ExLMModel`.
    """

    loss: Tensor | None = None
    logits: Tensor | None = None
    links: Tensor | None = None
    node_logits: Tensor | None = None
    hidden_states: tuple[Tensor, ...] | None = None
    attentions: tuple[Tensor, ...] | None = None


def rotate(x, cos, sin, half):
    """Returns x [B, N, d] rotated by tables of :meth:`ExLMModel.rotation`: in each part of 2 ``half``
    dimensions, j is paired with j + half. All heads at once, as long rows are fast."""
    swapped = x.unflatten(-1, (-1, 2, half)).roll(1, -2).flatten(-3)
    return (x * cos).addcmul_(swapped, sin)


def wide(x):
    """Returns a tensor in float32, or in float64 if it is."""
    return x if x.dtype == torch.float64 else x.float()


def cross_entropy(logits, labels):
    """Returns the mean over the labels that are not ``IGNORED``; 0, with a gradient, if there are none."""
    total = F.cross_entropy(wide(logits), labels, ignore_index=IGNORED, reduction="sum")
    return total / (labels != IGNORED).sum().clamp(min=1)


def label_loss(logits, labels, config):
    """Returns the loss of ``config.problem_type``: "regression" (mean squared error),
    "single_label_classification" or "multi_label_classification"; if that is None, chosen by the labels and
    recorded there, as in other models of transformers. Float labels may be missing (NaN)."""
    logits = wide(logits)
    if config.problem_type is None:
        classes = "single" if labels.dtype in (torch.int64, torch.int32) else "multi"
        problem = "regression" if config.num_labels == 1 else f"{classes}_label_classification"
        config.problem_type = problem
    if config.problem_type == "single_label_classification":
        return cross_entropy(logits, labels.view(-1))
    if labels.dim() > 1 and labels.shape != logits.shape:
        shapes = f"{list(labels.shape)}, the logits {list(logits.shape)}"
        raise ValueError(f"labels have to be [B, labels]: they are {shapes}")
    labels = labels.view_as(logits).to(logits.dtype)
    has_label = ~labels.isnan()
    function = F.mse_loss if config.problem_type == "regression" else F.binary_cross_entropy_with_logits
    total = function(logits[has_label], labels[has_label], reduction="sum")
    return total / has_label.sum().clamp(min=1)  # 0, with a gradient, if there are none


def known(ids, config):
    """Returns ids of words, int64; those that the tokenizer has beyond the vocabulary are ``<unk>``."""
    return torch.where(ids < config.vocab_size, ids, config.unk_token_id).long()


def at_targets(logits, marginals, layout, k):
    """Returns logits [B, T, V], replaced by marginals [B, M, V] at each target's token."""
    order = torch.arange(marginals.shape[1], device=logits.device)
    sentence, target = (order < layout.target_lengths[:, None]).nonzero(as_tuple=True)
    token = layout.node_sources[:, ::k][sentence, target]
    given = token < logits.shape[1]  # an appended </s> is none of the tokens
    sentence, target, token = sentence[given], target[given], token[given]
    return logits.index_put((sentence, token), marginals[sentence, target])


def exporting():
    """Returns whether torch.export, ONNX or torch.jit.trace takes down what is computed."""
    return torch.jit.is_tracing() or is_torchdynamo_exporting()


def checked(tokens, attention_mask, labels, config):
    """Returns the tokens, int64, with padding where the mask is 0, and there alone if it is given.

    Raises:
        ValueError: for a mask or labels of another shape, a mask that is not 1 and 0, and if they are not
            padded on the right, or do not start with ``<s>``.
        IndexError: for ids, of labels too, that the tokenizer does not have.
    """
    tokens = tokens.long()
    if not exporting():  # values cannot be looked at there
        for name, given in (("attention_mask", attention_mask), ("labels", labels)):
            if given is not None and given.shape != tokens.shape:  # one row would count for all
                shapes = f"{list(given.shape)}, input_ids are {list(tokens.shape)}"
                raise ValueError(f"{name} has to be [B, T]: it is {shapes}")
        if attention_mask is not None:
            seen = attention_mask == 1
            if not (seen | (attention_mask == 0)).all() or not seen.any(1).all():
                raise ValueError("attention_mask has to be [B, T], 1 at tokens and 0 on padding")
    if attention_mask is not None:
        unseen, padding = attention_mask == 0, tokens == config.pad_token_id
        # a <pad> that is seen was drawn at random, by a collator
        tokens = tokens.masked_fill(padding & ~unseen, config.unk_token_id)
        tokens = tokens.masked_fill(unseen, config.pad_token_id)
    if exporting():
        return tokens
    size = max(config.vocab_size, config.tokenizer_size or 0)
    targets = [] if labels is None else [("labels", labels[labels != IGNORED])]
    for name, ids in (("input_ids", tokens), *targets):
        if (wrong := ids[(ids < 0) | (ids >= size)]).numel():
            raise IndexError(
                f"{name} has the id {int(wrong[0])}, and this model's own tokenizer {size} ids: if you have "
                "added tokens to it, call model.resize_token_embeddings(len(tokenizer))"
            )
    padding = tokens == config.pad_token_id
    if (padding[:, :-1] & ~padding[:, 1:]).any():
        raise ValueError('there is padding before a token: set tokenizer.padding_side = "right"')
    first = tokens[:, 0]
    if labels is not None:  # it may be masked, too
        first = torch.where(labels[:, 0] == IGNORED, first, labels[:, 0])
    if (first != config.bos_token_id).any():
        raise ValueError(f"a sequence lacks <s> (id {config.bos_token_id}): add_special_tokens=True adds it")
    return tokens


def check_length(tokens, given, config):
    """Raises a ValueError if the tokens [B, N], which were ``given`` before they were expanded or repeated,
    are more than the model has positions; padding is not counted."""
    most = config.max_position_embeddings
    if tokens.shape[1] <= most or (taken := int((tokens != config.pad_token_id).sum(1).max())) <= most:
        return
    raise ValueError(
        f"{given} tokens take {taken} positions, as some have several, and the model has {most}: tokenize "
        "with truncation=True, or with a smaller max_length, or mask less"
    )
