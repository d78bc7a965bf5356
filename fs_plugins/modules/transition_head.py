"""Transitions between states (ExLM, section 4.2, equation of E; multi-head with gates)."""

import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

HEAD_CHUNK_BYTES = 64 * 2**20  # of one [B, heads, L, L] float32 tensor; a few are alive at a time


STATE_GRAPHS = ("dag", "local", "sparse", "lattice")


def edge_mask(node_lengths: Tensor, L: int, k: int = 1, graph: str = "dag", max_length: int = -1) -> Tensor:
    """Which transitions a graph of states has.

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
    index = torch.arange(L, device=node_lengths.device)
    step = index[None, :] - index[:, None]
    tokens = index // k  # the expanded token of each node
    mask = step > 0
    if graph == "local":
        max_length = 2 * k - 1
    if max_length != -1:
        mask = mask & (step <= max_length)
    if graph == "sparse":
        mask = mask & (tokens[None, :] != tokens[:, None])
    if graph == "lattice":
        mask = tokens[None, :] == tokens[:, None] + 1
    return mask & (index < node_lengths[:, None])[:, None, :]


def transition_log_probs(queries: Tensor, keys: Tensor, gates: Tensor, edges: Tensor) -> Tensor:
    """Log-probabilities of the transitions, a mixture of H heads.

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
        log_gates = gates.to(_sum_type(queries)).log_softmax(-1)  # [B, L, H]
        q, k = (t.unflatten(-1, (H, -1)).transpose(1, 2) for t in (queries, keys))  # [B, H, L, d / H]
        return _HeadMixture.apply(q, k, log_gates.transpose(1, 2), edges)


class _HeadMixture(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q: Tensor, k: Tensor, log_gates: Tensor, edges: Tensor) -> Tensor:
        missing = ~edges
        mixture = torch.full(edges.shape, -math.inf, device=q.device, dtype=log_gates.dtype)
        norms = torch.empty_like(log_gates)  # [B, H, L] log of each softmax's denominator
        for heads in _head_chunks(q):
            scores = _scores(q[:, heads], k[:, heads], missing)
            total = torch.logsumexp(scores, dim=-1)
            total.masked_fill_(total == -math.inf, math.inf)  # no successor: -inf - inf = -inf, never NaN
            norms[:, heads] = total
            scores.add_((log_gates[:, heads] - total)[..., None])
            mixture = torch.logaddexp(mixture, torch.logsumexp(scores, dim=1))
        ctx.save_for_backward(q, k, log_gates, missing, norms, mixture)
        return mixture

    @staticmethod
    @once_differentiable
    def backward(ctx, grad: Tensor):
        q, k, log_gates, missing, norms, mixture = ctx.saved_tensors
        grad = grad.masked_fill(missing, 0.0)[:, None]  # [B, 1, L, L]
        mixture = mixture.masked_fill(missing, 0.0)[:, None]
        grad_q, grad_k = torch.empty_like(q), torch.empty_like(k)
        grad_gates = torch.empty_like(log_gates)
        scale = q.shape[-1] ** -0.5
        for heads in _head_chunks(q):
            log_p = _scores(q[:, heads], k[:, heads], missing).sub_(norms[:, heads, :, None])
            # by the head's part
            share = (log_p + log_gates[:, heads, :, None]).sub_(mixture).exp_().mul_(grad)
            grad_gates[:, heads] = share.sum(-1)
            grad_scores = share.sub_(log_p.exp_().mul_(grad_gates[:, heads, :, None])).mul_(scale).to(q.dtype)
            grad_q[:, heads] = grad_scores @ k[:, heads]
            grad_k[:, heads] = grad_scores.transpose(2, 3) @ q[:, heads]
        return grad_q, grad_k, grad_gates, None


def _scores(q: Tensor, k: Tensor, missing: Tensor) -> Tensor:
    """[B, h, L, L] attention scores, -inf where there is no edge."""
    scores = (q @ k.transpose(2, 3)).to(_sum_type(q))
    return scores.mul_(q.shape[-1] ** -0.5).masked_fill_(missing[:, None], -math.inf)


def _sum_type(q: Tensor) -> torch.dtype:
    """What logarithms and sums are taken in."""
    return torch.float64 if q.dtype == torch.float64 else torch.float32


def _head_chunks(q: Tensor) -> list[slice]:
    """Slices of the heads whose [B, heads, L, L] float32 tensor is within HEAD_CHUNK_BYTES (at least one
    head)."""
    B, H, L, _ = q.shape
    size = max(1, HEAD_CHUNK_BYTES // max(1, 4 * B * L * L))
    return [slice(start, min(start + size, H)) for start in range(0, H, size)]
