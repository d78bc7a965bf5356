"""Graphs of states: of a batch, and the kinds of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from fs_plugins.exlm.alignment import ctc_targets_log_prob, dag_loss_reference, node_logits, target_scores
from fs_plugins.exlm.expansion import StateLayout
from fs_plugins.exlm.transitions import transition_log_probs


def within_two_tokens(k: int) -> int:
    return 2 * k - 1


@dataclass(frozen=True)
class GraphKind:
    """Graphs of states whose transitions are those of the paper, but along some edges only.

    A kind with a likelihood of its own overrides the methods. Each sentence needs a path from its first to
    its last node through as many nodes as there are targets.
    """

    help: str  # transitions that a state has
    # (v, u, k) -> whether there is an edge from node v to node u > v
    edge: Callable[[Tensor, Tensor, int], Tensor]
    # k -> least ``max_transition_length`` that leaves each sentence a path; None if none may be given
    least_length: Callable[[int], int] | None = within_two_tokens

    def edges(self, node_lengths: Tensor, L: int, k: int, max_length: int = -1) -> Tensor:
        """Returns [B, L, L] bool, whether there is an edge from node v to node u.

        Args:
            node_lengths: [B] int64, nodes of each sentence, k for each expanded token.
            L: nodes of the longest sentence.
            max_length: longest transition in nodes; -1 for any.
        """
        node = torch.arange(L, device=node_lengths.device)
        v, u = node[:, None], node
        mask = (u > v) & self.edge(v, u, k)
        if max_length != -1:
            mask = mask & (u - v <= max_length)
        return mask & (node < node_lengths[:, None])[:, None, :]

    def transitions(
        self, queries: Tensor, keys: Tensor, gates: Tensor, layout: StateLayout, k: int, max_length: int
    ) -> Tensor:
        """Returns log-probabilities, [B, L, L], of queries and keys [B, L, d] and gates [B, L, H]; see
        :func:`transition_log_probs`."""
        edges = self.edges(layout.node_lengths, queries.shape[1], k, max_length)
        return transition_log_probs(queries, keys, gates, edges)

    def links(self, transitions: Tensor, layout: StateLayout) -> Tensor:
        """Returns what :meth:`transitions` gave as [B, L, L], -inf where there is no edge."""
        return transitions

    def log_prob(self, graph: "StateGraph", score: Callable, dag_loss: Callable) -> Tensor:
        """Returns what :meth:`StateGraph.log_prob` does."""
        layout = graph.layout
        match = graph.match(layout.targets, score)
        return dag_loss(match, graph.transitions, layout.node_lengths, layout.target_lengths)

    def multiplications(self, targets, k: int, d: int):
        """Returns the multiplications of transitions and likelihood of a sentence, by its number of targets;
        linear maps apart."""
        pairs = (targets * k) ** 2 / 2
        return pairs * d + targets * pairs


class StateGraph(NamedTuple):
    """The graph of states of a batch, before the step to the vocabulary."""

    node_states: Tensor  # [B, L, d] input of the output matrix at each node
    output_weight: Tensor  # [V, d]
    output_bias: Tensor  # [V], or [k, V]: node u has that of state u mod k
    transitions: Tensor | None  # log-probabilities, in the form of the kind; None if not asked for
    layout: StateLayout  # indices of nodes and targets
    kind: GraphKind

    @property
    def links(self) -> Tensor | None:
        """Returns [B, L, L] float32 log-probabilities of transitions, -inf where there is no edge."""
        return None if self.transitions is None else self.kind.links(self.transitions, self.layout)

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
        return self.kind.log_prob(self, score, dag_loss)

    def ctc_log_prob(self, blank: int, score: Callable = target_scores) -> Tensor:
        """Returns the same without transitions (table 2): the k states of each target emit it by CTC."""
        targets, lengths = self.layout.targets, self.layout.target_lengths
        words = torch.stack([targets, torch.full_like(targets, blank)], dim=-1)
        own, empty = self.own_scores(words, score).unbind(2)
        return ctc_targets_log_prob(own, empty, targets == blank, lengths)

    def own_scores(self, words: Tensor, score: Callable = target_scores) -> Tensor:
        """Returns log-probabilities [B, M, n, k] of words [B, M, n] at the k states of their target."""
        states = self.node_states.unflatten(1, (words.shape[1], -1)).flatten(0, 1)  # [B * M, k, d]
        scores = score(states, self.output_weight, self.output_bias, words.flatten(0, 1))
        return scores.unflatten(0, words.shape[:2])
