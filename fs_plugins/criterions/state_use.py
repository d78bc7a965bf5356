"""Whether the k states of a mask are used: how probability is spread over them, and how they differ."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from fs_plugins.custom_ops.dag_loss import node_posteriors


def is_word(tokens: Tensor, dictionary) -> Tensor:
    """Returns which tokens are neither ``<s>`` nor ``</s>`` nor padding."""
    return (tokens != dictionary.bos()) & (tokens != dictionary.eos()) & (tokens != dictionary.pad())


def path_posteriors(
    graph, match: Tensor | None = None, sentences: slice = slice(None)
) -> tuple[Tensor, Tensor]:
    """Returns the probability that node u is the i-th of a path [B, M, L], among paths with as many nodes as
    targets, by the transitions and emissions ``match`` [B, M, L]; and the log-probability [B] of them all.
    Without ``match`` nodes emit anything: the second is that of a path having so many nodes."""
    layout, links = graph.layout, graph.links[sentences]
    if match is None:
        match = links.new_zeros(*layout.targets[sentences].shape, links.shape[1])
    return node_posteriors(match, links, layout.node_lengths[sentences], layout.target_lengths[sentences])


def state_probs(own: Tensor) -> Tensor:
    """Returns the probabilities [..., k] of a target's own states such that they sum to 1: q."""
    return own / own.sum(-1, keepdim=True).clamp_min(1e-30)


def entropy(probs: Tensor) -> Tensor:
    """Returns H[probs] [...] of [..., n] in bits: for q, from 0 (one state does it all) to log2 k."""
    return torch.special.entr(probs).sum(-1) / math.log(2)


def divergences(q: Tensor, masked: Tensor, log_probs: Callable[[int], Tensor]) -> Tensor:
    """Computes the Jensen-Shannon divergence [B, M] in bits of the tokens that a masked target's states
    predict, weighted by q; 0 of other targets. Logits are those of a sentence at a time.

    H[sum over c of q(c) P_c] - sum over c of q(c) H[P_c]: what the state tells about the token. 0 where the
    states agree or one does it all; at most H[q].

    Args:
        q: [B, M, k].
        masked: [B, M] bool.
        log_probs: of sentence b [L, V], log-probabilities of the vocabulary at its nodes.
    """
    result = torch.zeros_like(q[..., 0])
    order = masked.sort(dim=1, descending=True, stable=True).indices  # masked targets first
    for b, count in enumerate(masked.sum(1).tolist()):  # waits for a GPU once
        targets = order[b, :count]
        probs = log_probs(b).unflatten(0, (-1, q.shape[-1]))[targets].exp()  # [masked, k, V]
        own = q[b, targets]
        mixed = (own[..., None] * probs).sum(1)
        result[b, targets] = entropy(mixed) - (own * entropy(probs)).sum(1)
    return result
