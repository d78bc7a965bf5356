"""The lattice: transitions lead from the k states of each expanded token to those of the next one only.

A path then has one state of each token, target i is a word of token i, and a sentence's likelihood is a
product of k x k matrices: the paper's graph of L = M k nodes has [B, L, L] transitions, this one [B, M - 1,
k, k].
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from fs_plugins.modules.transition_head import NO_EDGE


def linear_of_states(x: Tensor, added: Tensor | None, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """weight @ (x + added) + bias, where x + added is never made.

    Args:
        x: [B, M, s, d] features of the tokens' states; s is k, or 1 where the states of a token are alike.
        added: [k, d], what each state has besides; None for nothing.
        weight, bias: [n, d] and [n].

    Returns:
        [B, M, k or s, n].
    """
    y = F.linear(x, weight, bias)
    return y if added is None else y + F.linear(added, weight)


def lattice_transitions(queries: Tensor, keys: Tensor, gates: Tensor) -> Tensor:
    """Log-probabilities of the transitions, the mixture of heads of ``transition_log_probs``.

    Args:
        queries, keys: [B, M, k, d].
        gates: [B, M, k, H] scores of the heads, before their softmax.

    Returns:
        [B, M - 1, k, k] float32 (float64 for float64 queries): from state c of token m to state e of the
        next, at [b, m, c, e]. Of no meaning beyond a sentence's own tokens.
    """
    H, dtype = gates.shape[-1], torch.promote_types(queries.dtype, torch.float32)
    with torch.autocast(device_type=queries.device.type, enabled=False):
        q, k = (t.to(dtype).unflatten(-1, (H, -1)).transpose(2, 3) for t in (queries[:, :-1], keys[:, 1:]))
        log_gates = gates[:, :-1].log_softmax(-1, dtype=dtype).transpose(2, 3)  # [B, M - 1, H, k]
        scores = (q @ k.mT) * q.shape[-1] ** -0.5
        return (scores.log_softmax(-1) + log_gates[..., None]).logsumexp(2)


def lattice_log_prob(own: Tensor, steps: Tensor, target_lengths: Tensor) -> Tensor:
    """Log-probability of each sentence's targets, over all paths from its first to its last node.

    The matrices are multiplied in pairs, in log2 M rounds.

    Args:
        own: [B, M, k] log-probability of each target at its token's states.
        steps: [B, M - 1, k, k], from :func:`lattice_transitions`.
        target_lengths: [B] int64 targets of each sentence, at least 2.

    Returns:
        [B] in nats, differentiable.
    """
    k = own.shape[-1]
    nothing = torch.full_like(steps[0, 0], NO_EDGE).fill_diagonal_(0.0)  # the logarithm of the identity
    own = own.clamp(min=NO_EDGE)  # finite, so that the gradient of a word that cannot be is 0 and not NaN
    product = torch.where(_arrives(steps, target_lengths), steps + own[:, 1:, None], nothing)
    while (n := product.shape[1]) > 1:
        if n % 2:
            product = torch.cat([product, nothing.expand(len(own), 1, k, k)], 1)
        product = (product[:, ::2, :, :, None] + product[:, 1::2, None]).logsumexp(3)
    total = own[:, 0, 0] + product[:, 0, 0, -1]
    return total.masked_fill(total < NO_EDGE / 2, -math.inf)


def lattice_links(steps: Tensor, target_lengths: Tensor) -> Tensor:
    """The transitions [B, M - 1, k, k] as those of any graph, [B, L, L] for the L = M k nodes; -inf where
    there is no edge."""
    B, n, k, _ = steps.shape
    links = steps.new_full((B, n + 1, n + 1, k, k), -math.inf)
    steps = steps.masked_fill(~_arrives(steps, target_lengths), -math.inf)
    links.diagonal(1, 1, 2).copy_(steps.movedim(1, -1))
    return links.transpose(2, 3).flatten(3).flatten(1, 2)


def _arrives(steps: Tensor, target_lengths: Tensor) -> Tensor:
    """[B, M - 1, 1, 1] bool: whether a step leads to a token of the sentence."""
    arrived = torch.arange(1, steps.shape[1] + 1, device=steps.device)
    return (arrived < target_lengths[:, None])[:, :, None, None]
