"""The graph of states of a batch."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from .alignment import ctc_targets_log_prob, dag_loss_reference, node_logits, target_scores
from .expansion import StateLayout


class StateGraph(NamedTuple):
    """The graph of states of a batch, before the step to the vocabulary."""

    node_states: Tensor  # [B, L, d] input of the output matrix at each node
    output_weight: Tensor  # [V, d]
    output_bias: Tensor  # [V]
    # [B, L, L] float32 log-probabilities of transitions, -inf where there is no edge; None if not asked for
    links: Tensor | None
    layout: StateLayout  # indices of nodes and targets

    def logits(self, sentences: slice = slice(None)) -> Tensor:
        """Returns [B, L, V] scores of the vocabulary at each node; training needs only the targets'."""
        return node_logits(self.node_states[sentences], self.output_weight, self.output_bias)

    def log_probs(self, b: int) -> Tensor:
        """Returns [L, V] log-probabilities of the vocabulary at each node of sentence b, float32."""
        return self.logits(slice(b, b + 1))[0].float().log_softmax(-1)

    def match(self, words: Tensor, score: Callable = target_scores) -> Tensor:
        """Returns log-probabilities [B, M, L] of words [B, M] at all nodes."""
        return score(self.node_states, self.output_weight, self.output_bias, words)

    def log_prob(self, score: Callable = target_scores, dag_loss: Callable = dag_loss_reference) -> Tensor:
        """Returns the log-probability [B] (nats) of each sentence's targets, summed over all alignments
        (section 4.3). ``score`` does what :func:`target_scores` does, ``dag_loss`` what the reference
        does."""
        match = self.match(self.layout.targets, score)
        return dag_loss(match, self.links, self.layout.node_lengths, self.layout.target_lengths)

    def ctc_log_prob(self, blank: int, score: Callable = target_scores) -> Tensor:
        """Returns the same without transitions (table 2): the k states of each target emit it by CTC."""
        targets, lengths = self.layout.targets, self.layout.target_lengths
        words = torch.stack([targets, torch.full_like(targets, blank)], dim=-1)
        states = self.node_states.unflatten(1, (targets.shape[1], -1)).flatten(0, 1)  # [B * M, k, d]
        scores = score(states, self.output_weight, self.output_bias, words.flatten(0, 1))  # [B * M, 2, k]
        of_target, of_blank = scores.unflatten(0, targets.shape).unbind(2)
        return ctc_targets_log_prob(of_target, of_blank, targets == blank, lengths)
