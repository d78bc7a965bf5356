"""The lattice: transitions lead from the k states of each expanded token to those of the next one only.

A path then has one state of each token, target i is a word of token i, and a sentence's likelihood is a
product of k x k matrices: the paper's graph of L = M k nodes has [B, L, L] transitions, this one [B, M - 1,
k, k].
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fs_plugins.modules.transition_head import NO_EDGE


class StateFeatures:
    """norm(x + v) [B, M, k, d] of tokens that the layers left with one x each, for the vector v of each of
    their k states. It is never made: a product with it is the sum of those with x and v, each centred, over
    a standard deviation, which is one number a state.

    Args:
        x: [B, M, 1, d].
        v: [k, d].
        norm: the layer norm.
    """

    def __init__(self, x: Tensor, v: Tensor, norm: nn.LayerNorm):
        dtype, self.norm = x.dtype, norm
        with torch.autocast(device_type=x.device.type, enabled=False):
            x, v = (t.to(torch.promote_types(dtype, torch.float32)) for t in (x, v))  # as layer norms do
            x, v = (t - t.mean(-1, keepdim=True) for t in (x, v))
            both = x.square().mean(-1, keepdim=True) + v.square().mean(-1) + 2 / x.shape[-1] * F.linear(x, v)
            self.scale = (both.mT + norm.eps).rsqrt().to(dtype)  # [B, M, k, 1]
            self.x, self.v = ((norm.weight * t).to(dtype) for t in (x, v))

    def linear(self, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Returns [B, M, k, n] by a weight [n, d] and a bias [n]."""
        y = F.linear(self.x, weight) + F.linear(self.v, weight)
        return y * self.scale + F.linear(self.norm.bias, weight, bias)


def linear(features: Tensor | StateFeatures, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Does what ``torch.nn.functional.linear`` does."""
    if isinstance(features, StateFeatures):
        return features.linear(weight, bias)
    return F.linear(features, weight, bias)


def lattice_transitions(queries: Tensor, keys: Tensor, gates: Tensor) -> Tensor:
    """Computes log-probabilities of the transitions, the mixture of heads of ``transition_log_probs``.

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
    """Computes the log-probability of each sentence's targets, over all paths from first to last node.

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
    """Returns the transitions [B, M - 1, k, k] as those of any graph, [B, L, L] for the L = M k nodes; -inf
    where there is no edge."""
    B, n, k, _ = steps.shape
    links = steps.new_full((B, n + 1, n + 1, k, k), -math.inf)
    steps = steps.masked_fill(~_arrives(steps, target_lengths), -math.inf)
    links.diagonal(1, 1, 2).copy_(steps.movedim(1, -1))
    return links.transpose(2, 3).flatten(3).flatten(1, 2)


def _arrives(steps: Tensor, target_lengths: Tensor) -> Tensor:
    """Returns whether each step leads to a token of the sentence, [B, M - 1, 1, 1] bool."""
    arrived = torch.arange(1, steps.shape[1] + 1, device=steps.device)
    return (arrived < target_lengths[:, None])[:, :, None, None]
