"""The checks of an ExLM's input in transformers, its losses, and what its masked LM returns."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.modeling_outputs import MaskedLMOutput
from transformers.utils.import_utils import is_torchdynamo_exporting

IGNORED = -100  # the label of what is not to be predicted


@dataclass
class ExLMMaskedLMOutput(MaskedLMOutput):
    """Outputs of a masked language model, besides ``hidden_states`` and ``attentions``; see
    :class:`ExLMModel`.

    Attributes:
        loss: with labels; see :class:`ExLMForMaskedLM`.
        logits: [B, T, V]; None in training with labels. With states: at a masked token, log P(its word), the
            exact marginal over all paths that have one word for each mask; elsewhere scores of the LM head,
            which were not trained.
        links: [B, L, L] log-probabilities of the transitions, -1e30 where there is none.
        node_logits: [B, L, V] scores of the vocabulary at each node.
    """

    links: Tensor | None = None
    node_logits: Tensor | None = None


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
        config.problem_type = "regression" if config.num_labels == 1 else f"{classes}_label_classification"
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
    given = token < logits.shape[1]  # leaves out an appended </s>
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
    if not exporting():  # tracing knows no values
        for name, given in (("attention_mask", attention_mask), ("labels", labels)):
            if given is not None and given.shape != tokens.shape:  # one row would be broadcast
                shapes = f"{list(given.shape)}, input_ids are {list(tokens.shape)}"
                raise ValueError(f"{name} has to be [B, T]: it is {shapes}")
        if attention_mask is not None:
            seen = attention_mask == 1
            if not (seen | (attention_mask == 0)).all() or not seen.any(1).all():
                raise ValueError("attention_mask has to be [B, T], 1 at tokens and 0 on padding")
    if attention_mask is not None:
        unseen, padding = attention_mask == 0, tokens == config.pad_token_id
        # A <pad> that is seen was drawn at random, by a collator.
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
    if labels is not None:  # <s> may be masked, too
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
