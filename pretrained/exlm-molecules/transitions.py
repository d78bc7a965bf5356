"""Transitions between states (ExLM, section 4.2): edges, and the equation of E (multi-head with gates)."""

import functools
import math

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

HEAD_CHUNK_BYTES = 64 * 2**20  # size of a [B, heads, L, L] float32 tensor; a few are alive at a time
LOG_ZERO = -1e30  # the logarithm of 0 where -inf would make softmax or gradients NaN

GRAPHS = {  # name -> the nodes that a state has transitions to
    "dag": "all later ones (default, the paper's)",
    "sparse": "those of all later tokens (table 13)",
}


def edge_mask(graph: str, node_lengths: Tensor, L: int, k: int, max_length: int = -1) -> Tensor:
    """Returns [B, L, L] bool, whether there is an edge from node v to node u.

    Args:
        graph: one of GRAPHS.
        node_lengths: [B] int64, nodes of each sentence, k for each expanded token.
        L: nodes of the longest sentence.
        max_length: longest transition in nodes; -1 for any.
    """
    node = torch.arange(L, device=node_lengths.device)
    v, u = node[:, None], node
    edges = u > v if graph == "dag" else u // k > v // k
    if max_length != -1:
        edges = edges & (u - v <= max_length)
    return edges & (node < node_lengths[:, None])[:, None, :]


def transition_log_probs(queries: Tensor, keys: Tensor, gates: Tensor, edges: Tensor) -> Tensor:
    """Computes log-probabilities of the transitions, a mixture of H heads.

    E(v, u) = logsumexp over h of gates[v, h] + log-softmax over u of <queries_h(v), keys_h(u)> / sqrt(d /
    H), the softmax over the edges of v only. No tensor over all of B, L, L and H is kept for the backward
    pass: it works through the heads again.

    Args:
        queries, keys: [B, L, d].
        gates: [B, L, H] scores of the heads, before their softmax.
        edges: [B, L, L] bool, whether there is a transition from node v to node u.

    Returns:
        [B, L, L] float32 (float64 for float64 queries); -inf where there is no edge, so that rows of nodes
        without a successor are all -inf.
    """
    (B, L, H), missing = gates.shape, ~edges
    with torch.autocast(device_type=queries.device.type, enabled=False):
        dtype = torch.promote_types(queries.dtype, torch.float32)
        log_gates = gates.log_softmax(-1, dtype=dtype).transpose(1, 2)  # [B, H, L]
        q, k = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in (queries, keys))  # [B, H, L, d / H]
        size = max(1, HEAD_CHUNK_BYTES // max(1, 4 * B * L * L))
        chunks = zip(q.split(size, 1), k.split(size, 1), log_gates.split(size, 1), strict=True)
        options = {"use_reentrant": False, "preserve_rng_state": False}
        mixtures = [checkpoint(_mixture, *chunk, missing, **options) for chunk in chunks]
        return functools.reduce(torch.logaddexp, mixtures).masked_fill(missing, -math.inf)


def _mixture(q: Tensor, k: Tensor, log_gates: Tensor, missing: Tensor) -> Tensor:
    """Returns [B, L, L] of heads' q and k [B, h, L, d / H] and log_gates [B, h, L]; a large negative number,
    or for a node without edges a meaningless one, where there is none."""
    q, k = (t.to(log_gates.dtype) for t in (q, k))
    scores = (q * q.shape[-1] ** -0.5) @ k.mT
    log_p = scores.masked_fill(missing[:, None], LOG_ZERO).log_softmax(-1)
    return (log_p + log_gates[..., None]).logsumexp(1)
