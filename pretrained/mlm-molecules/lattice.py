"""The lattice, which is not in the paper: transitions lead from the k states of each expanded token to those
of the next one only.

A path then has one state of each token, target i is a word of token i, and a sentence's likelihood is a
product of k x k matrices: the paper's graph of L = M k nodes has [B, L, L] transitions, this one [B, M - 1,
k, k].
"""

import math

import torch
from torch import Tensor

from .graph import GraphKind
from .transitions import LOG_ZERO


class Lattice(GraphKind):
    def transitions(self, queries, keys, gates, layout, k, max_length):
        """Returns [B, M - 1, k, k] float32 (float64 for float64 queries): from state c of token m to state e
        of the next, at [b, m, c, e]. Of no meaning beyond a sentence's own tokens."""
        queries, keys, gates = (t.unflatten(1, (-1, k)) for t in (queries, keys, gates))
        H, dtype = gates.shape[-1], torch.promote_types(queries.dtype, torch.float32)
        with torch.autocast(device_type=queries.device.type, enabled=False):
            pairs = queries[:, :-1], keys[:, 1:]
            q, k = (t.to(dtype).unflatten(-1, (H, -1)).transpose(2, 3) for t in pairs)
            log_gates = gates[:, :-1].log_softmax(-1, dtype=dtype).transpose(2, 3)  # [B, M - 1, H, k]
            scores = (q @ k.mT) * q.shape[-1] ** -0.5
            return (scores.log_softmax(-1) + log_gates[..., None]).logsumexp(2)

    def links(self, transitions, layout):
        B, n, k, _ = transitions.shape
        links = transitions.new_full((B, n + 1, n + 1, k, k), -math.inf)
        known = transitions.masked_fill(~_arrives(transitions, layout.target_lengths), -math.inf)
        links.diagonal(1, 1, 2).copy_(known.movedim(1, -1))
        return links.transpose(2, 3).flatten(3).flatten(1, 2)

    def log_prob(self, graph, score, dag_loss):
        own = graph.own_scores(graph.layout.targets[..., None], score).squeeze(2)
        return lattice_log_prob(own, graph.transitions, graph.layout.target_lengths)

    def multiplications(self, targets, k, d):
        pairs = (targets - 1) * k * k
        return pairs * d + pairs * k


def lattice_log_prob(own: Tensor, transitions: Tensor, target_lengths: Tensor) -> Tensor:
    """Computes the log-probability of each sentence's targets, over all paths from first to last node.

    The matrices are multiplied in pairs, in log2 M rounds.

    Args:
        own: [B, M, k] log-probability of each target at its token's states.
        transitions: [B, M - 1, k, k], from :meth:`Lattice.transitions`.
        target_lengths: [B] int64 targets of each sentence, at least 2.

    Returns:
        [B] in nats, differentiable.
    """
    k = own.shape[-1]
    nothing = torch.full_like(transitions[0, 0], LOG_ZERO).fill_diagonal_(0.0)  # log of the identity
    own = own.clamp(min=LOG_ZERO)  # the gradient of an impossible word is 0, not NaN
    product = transitions + own[:, 1:, None]
    product = torch.where(_arrives(transitions, target_lengths), product, nothing)
    while (n := product.shape[1]) > 1:
        if n % 2:
            product = torch.cat([product, nothing.expand(len(own), 1, k, k)], 1)
        product = (product[:, ::2, :, :, None] + product[:, 1::2, None]).logsumexp(3)
    total = own[:, 0, 0] + product[:, 0, 0, -1]
    return total.masked_fill(total < LOG_ZERO / 2, -math.inf)


def _arrives(transitions: Tensor, target_lengths: Tensor) -> Tensor:
    """Returns whether each transition leads to a token of the sentence, [B, M - 1, 1, 1] bool."""
    arrived = torch.arange(1, transitions.shape[1] + 1, device=target_lengths.device)
    return (arrived < target_lengths[:, None])[:, :, None, None]
