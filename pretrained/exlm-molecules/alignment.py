"""States alignment (ExLM, section 4.3) in plain PyTorch: the likelihood of targets, summed over all
alignments; by CTC without transitions; and the words' log-probabilities at each target.

B sentences, L nodes, M targets, k states of each target, V words. Log-probabilities are float32 or wider.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from .transitions import LOG_ZERO


def node_logits(states: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns [B, L, V] scores of the vocabulary at nodes with states [B, L, d], by the output matrix [V, d]
    and a bias [V]."""
    return F.linear(states, weight, bias)


def target_scores(states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """Returns match[b, i, u] = log P_u(targets[b, i]), [B, M, L] float32 (float64 for float64 states);
    arguments as of :func:`node_logits`, targets [B, M] int64, on padding any."""
    logits = node_logits(states, weight, bias)
    log_probs = logits.log_softmax(-1, dtype=torch.promote_types(logits.dtype, torch.float32))
    return gathered_scores(log_probs, targets)


def gathered_scores(log_probs: Tensor, targets: Tensor) -> Tensor:
    """Returns match [B, M, L] of targets [B, M], by the nodes' log_probs [B, L, V]."""
    return log_probs.gather(2, targets[:, None].expand(-1, log_probs.shape[1], -1)).transpose(1, 2)


def own_states(nodes: Tensor, k: int) -> Tensor:
    """Returns the values [B, M, k] of each target's own k states, of those [B, M, L = M k] of all nodes."""
    return nodes.unflatten(2, (-1, k)).diagonal(dim1=1, dim2=2).transpose(1, 2)


def dag_loss_reference(match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """Computes the log-probability of each sentence's targets, over all alignments::

        f(0, u) = [u = 0] P_0(y_0)
        f(i, u) = P_u(y_i) * sum over v < u of f(i - 1, v) E(v, u)
        result  = log f(m - 1, n - 1)

    The oracle of the compiled op, and its stand-in where nothing compiles: ``custom_ops/dag_loss.py``
    documents shapes and errors. Any device and floating-point type, differentiable by autograd, one step of
    Python per target.
    """
    B, M, L = match.shape
    if M == 0 or L == 0:
        return match.new_full((B,), -math.inf)
    if match.device.type == "cpu":
        for lengths, most in ((node_lengths, L), (target_lengths, M)):
            if ((lengths < 0) | (lengths > most)).any():
                raise ValueError(
                    f"a length is negative or larger than its dimension ({most}): {lengths.tolist()}"
                )
    # Padding, and edges v -> u with v >= u, get -inf.
    nodes = torch.arange(L, device=match.device)
    is_node = nodes < node_lengths[:, None]  # [B, L]
    is_target = torch.arange(M, device=match.device) < target_lengths[:, None]  # [B, M]
    forward = torch.ones(L, L, dtype=torch.bool, device=links.device).triu(1)  # v < u
    match = match.masked_fill(~(is_target[:, :, None] & is_node[:, None, :]), -math.inf)
    edges = links.masked_fill(~(forward & is_node[:, None, :]), -math.inf)
    alpha = torch.where(nodes == 0, match[:, 0], -math.inf)  # [B, L]: log f(0, u)
    rows = [alpha]
    for i in range(1, M):
        alpha = _log_sum_exp(alpha[:, :, None] + edges) + match[:, i]
        rows.append(alpha)
    f = torch.stack(rows, dim=1)  # [B, M, L]
    last_target = (target_lengths - 1).clamp(min=0)
    last_node = (node_lengths - 1).clamp(min=0)
    log_prob = f[torch.arange(B, device=match.device), last_target, last_node]
    no_path = (target_lengths < 1) | (node_lengths < 1) | (log_prob == -math.inf)
    return log_prob.masked_fill(no_path, -math.inf)  # has no gradient either


def _log_sum_exp(x: Tensor) -> Tensor:
    """Returns log-sum-exp over dim 1; its gradient at a row of -inf is 0, that of ``torch.logsumexp`` NaN."""
    top = x.detach().amax(dim=1)
    empty = top == -math.inf
    top = top.masked_fill(empty, 0.0)
    total = (x - top[:, None]).exp().sum(dim=1)
    return torch.where(empty, -math.inf, total.masked_fill(empty, 1.0).log() + top)


def word_log_probs(log_probs: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """Computes log-probabilities of the words of each target, on paths of as many nodes as targets.

    log P(word i = w) = log sum over nodes u of P(node i of the path is u) P_u(w): the exact marginal over all
    paths, by the forward-backward algorithm over the transitions. The words of different targets are not
    independent.

    Args:
        log_probs: [B, L, V] of the vocabulary at each node.
        links: [B, L, L] log-probability of each transition, ``LOG_ZERO`` where there is no edge.
        node_lengths, target_lengths: [B] int64.

    Returns:
        [B, M, V] for the M targets of the sentence with the most; of no meaning beyond a sentence's own.
    """
    M = int(target_lengths.max())
    device, at_node = log_probs.device, log_probs[:, :, 0]
    sentence = torch.arange(len(log_probs), device=device)[:, None]
    until = _forward_scan(_one_hot_log_probs(at_node, torch.zeros_like(node_lengths)), links, M)
    onward = _forward_scan(_one_hot_log_probs(at_node, node_lengths - 1), links.transpose(1, 2), M)
    to_come = target_lengths[:, None] - 1 - torch.arange(M, device=device)  # targets after target i
    node_marginals = (until + onward[sentence, to_come.clamp(min=0)]).softmax(-1)  # [B, M, L]
    return (node_marginals @ log_probs.exp()).clamp(min=torch.finfo(log_probs.dtype).tiny).log()


def _one_hot_log_probs(like: Tensor, node: Tensor) -> Tensor:
    """Returns [B, L] log-probabilities of being at ``node`` [B] for certain."""
    return torch.full_like(like, LOG_ZERO).scatter(1, node[:, None], 0.0)


def _forward_scan(start: Tensor, links: Tensor, n: int) -> Tensor:
    """Returns [B, n, L] log-probabilities of each node after 0, 1, ... transitions; each row is
    normalised, so that float32 spends its digits on the differences between nodes."""
    rows = [start]
    for _ in range(1, n):
        rows.append((rows[-1][:, :, None] + links).logsumexp(1).log_softmax(-1))
    return torch.stack(rows, 1)


def ctc_log_probs(log_probs: Tensor, blank: Tensor) -> Tensor:
    """Computes the log-probability that k states emit a word by CTC: a run of it, blanks around it.

    Args:
        log_probs: [..., k, W] of each word at each state.
        blank: [..., k, 1] that of the blank.

    Returns:
        [..., W] in nats, differentiable.
    """
    word, empty = log_probs.unbind(-2), blank.unbind(-2)
    inside, before = word[0], empty[0]
    after = torch.full_like(inside, LOG_ZERO)
    for state in range(1, len(word)):
        after = torch.logaddexp(after, inside) + empty[state]
        inside = torch.logaddexp(inside, before) + word[state]
        before = before + empty[state]
    return torch.logaddexp(inside, after)


def ctc_targets_log_prob(own: Tensor, blank: Tensor, is_blank: Tensor, target_lengths: Tensor) -> Tensor:
    """Computes the log-probability of each sentence's targets without transitions (table 2): the k states of
    each target emit it by CTC.

    Args:
        own, blank: [B, M, k] log-probability of each target, and of the blank, at the target's states.
        is_blank: [B, M] bool, where the target is the blank itself: all k states emit that.
        target_lengths: [B] int64.

    Returns:
        [B] in nats, differentiable.
    """
    by_ctc = ctc_log_probs(own[..., None], blank[..., None]).squeeze(-1)
    log_probs = torch.where(is_blank, blank.sum(-1), by_ctc)  # [B, M]
    has_target = torch.arange(own.shape[1], device=own.device) < target_lengths[:, None]
    return torch.where(has_target, log_probs, 0.0).sum(1)


def ctc_word_log_probs(log_probs: Tensor, blank: int) -> Tensor:
    """Returns log-probabilities [B, M, V] of each target's words by CTC, the blank being none, of those
    [B, M, k, V] of the vocabulary at its states."""
    scores = ctc_log_probs(log_probs, log_probs[..., blank, None])
    return scores.index_fill(-1, torch.tensor([blank], device=scores.device), LOG_ZERO).log_softmax(-1)
