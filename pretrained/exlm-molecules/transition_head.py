"""Transitions between states (ExLM, section 4.2, equation of E; multi-head with gates)."""

import functools
import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

HEAD_CHUNK_BYTES = 64 * 2**20  # of one [B, heads, L, L] float32 tensor; a few are alive at a time
NO_EDGE = -1e30  # a score in place of -inf: finite, so that the softmax of a node without edges is no NaN

STATE_GRAPHS = ("dag", "local", "sparse", "lattice")


def edge_mask(node_lengths: Tensor, L: int, k: int = 1, graph: str = "dag", max_length: int = -1) -> Tensor:
    """Tells which transitions a graph of states has.

    Args:
        node_lengths: [B] int64, nodes of each sentence, k for each expanded token.
        L: nodes of the longest sentence.
        k: states of each expanded token.
        graph: "dag" (the paper's): from every node to all later ones; "local": to the next 2k - 1 nodes;
            "sparse" (table 13): none between two states of one token; "lattice": only to the states of the
            next expanded token. Each has a path from ``<s>`` to ``</s>`` through one state of every token.
        max_length: longest transition of "dag" and "sparse" in nodes; -1 for any.

    Returns:
        [B, L, L] bool: whether there is an edge from node v to node u; only if v < u.
    """
    node = torch.arange(L, device=node_lengths.device)
    v, u = node[:, None], node
    if graph == "lattice":
        mask = u // k == v // k + 1
    elif graph == "sparse":
        mask = u // k > v // k
    else:
        mask = u > v
    if graph == "local":
        max_length = 2 * k - 1
    if max_length != -1:
        mask = mask & (u - v <= max_length)
    return mask & (node < node_lengths[:, None])[:, None, :]


def transition_log_probs(queries: Tensor, keys: Tensor, gates: Tensor, edges: Tensor) -> Tensor:
    """Computes log-probabilities of the transitions, a mixture of H heads.

    E(v, u) = logsumexp over h of gates[v, h] + log-softmax over u of <queries_h(v), keys_h(u)> / sqrt(d /
    H), the softmax over the edges of v only. No tensor over all of B, L, L and H is kept for the backward
    pass: it works through the heads again.

    Args:
        queries, keys: [B, L, d].
        gates: [B, L, H] scores of the heads, before their softmax.
        edges: [B, L, L] bool, from :func:`edge_mask`.

    Returns:
        [B, L, L] float32 (float64 for float64 queries); -inf where there is no edge, so that rows of nodes
        without a successor are all -inf.
    """
    H = gates.shape[-1]
    with torch.autocast(device_type=queries.device.type, enabled=False):
        dtype = torch.promote_types(queries.dtype, torch.float32)
        log_gates = gates.log_softmax(-1, dtype=dtype)  # [B, L, H]
        q, k = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in (queries, keys))  # [B, H, L, d / H]
        return _HeadMixture.apply(q, k, log_gates.transpose(1, 2), edges)


class _HeadMixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, log_gates: Tensor, edges: Tensor) -> Tensor:
        missing = ~edges
        mixtures = []
        for heads in _head_chunks(q):
            log_p = _log_softmax(q[:, heads].flatten(0, 1), k[:, heads].flatten(0, 1), missing)
            mixtures.append(log_p.add_(log_gates[:, heads, :, None]).logsumexp(1))
        mixture = functools.reduce(torch.logaddexp, mixtures).masked_fill_(missing, -math.inf)
        ctx.save_for_backward(q, k, log_gates, missing, mixture)
        return mixture

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        q, k, log_gates, missing, mixture = ctx.saved_tensors
        grad = grad.masked_fill(missing, 0.0)[:, None]  # [B, 1, L, L]
        mixture = mixture.masked_fill(missing, 0.0)[:, None]
        grads_q, grads_k, grads_gates = [], [], []
        for heads in _head_chunks(q):
            q_h, k_h = q[:, heads].flatten(0, 1), k[:, heads].flatten(0, 1)
            log_p = _log_softmax(q_h, k_h, missing)
            # by the head's part
            share = (log_p + log_gates[:, heads, :, None]).sub_(mixture).exp_().mul_(grad)
            grad_gates = share.sum(-1, keepdim=True)
            grad_scores = share.addcmul_(log_p.exp_(), grad_gates, value=-1).flatten(0, 1).to(q.dtype)
            grads_q.append(_scaled_product(grad_scores, k_h, q).unflatten(0, share.shape[:2]))
            grads_k.append(_scaled_product(grad_scores.mT, q_h, q).unflatten(0, share.shape[:2]))
            grads_gates.append(grad_gates.squeeze(-1))
        return *(
            parts[0] if len(parts) == 1 else torch.cat(parts, 1) for parts in (grads_q, grads_k, grads_gates)
        ), None


def _log_softmax(q: Tensor, k: Tensor, missing: Tensor) -> Tensor:
    """Returns [B, h, L, L] log-softmax over the edges of each node, of q and k [B * h, L, d / H]; a large
    negative number, or for a node without edges a meaningless one, where there is none."""
    dtype = torch.promote_types(q.dtype, torch.float32)
    scores = _scaled_product(q.to(dtype), k.to(dtype).mT, q).unflatten(0, (len(missing), -1))
    return scores.masked_fill_(missing[:, None], NO_EDGE).log_softmax(-1)


def _scaled_product(a: Tensor, b: Tensor, q: Tensor) -> Tensor:
    """Returns a @ b over the square root of the size of a head of ``q``."""
    return torch.baddbmm(a.new_empty(()), a, b, beta=0, alpha=q.shape[-1] ** -0.5)


def _head_chunks(q: Tensor) -> list[slice]:
    """Returns slices of the heads whose [B, heads, L, L] float32 tensor is within HEAD_CHUNK_BYTES (at least
    one head)."""
    B, H, L, _ = q.shape
    size = max(1, HEAD_CHUNK_BYTES // max(1, 4 * B * L * L))
    return [slice(start, min(start + size, H)) for start in range(0, H, size)]
