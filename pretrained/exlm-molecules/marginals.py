"""Marginal token distributions of each target, by the graph and by CTC, in plain PyTorch.

The file imports torch only, as an export for transformers copies it.

B sentences, L nodes, M targets, k states of each target, V words. Log-probabilities are float32 or wider.
``NEVER`` stands for the logarithm of 0: it is finite, so that gradients are 0 there and not NaN.
"""

import torch
from torch import Tensor

NEVER = -1e4


def word_log_probs(words: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """Computes log-probabilities of the words of each target, on paths of as many nodes as targets.

    log P(word i = w) = log sum over nodes u of P(node i of the path is u) P_u(w): the exact marginal over all
    paths, by the forward-backward algorithm over the transitions. The words of different targets are not
    independent.

    Args:
        words: [B, L, V] log-probabilities of the vocabulary at each node.
        links: [B, L, L] log-probability of each transition, ``NEVER`` where there is no edge.
        node_lengths, target_lengths: [B] int64.

    Returns:
        [B, M, V] for the M targets of the sentence with the most; of no meaning beyond a sentence's own.
    """
    M = int(target_lengths.max())
    sentence = torch.arange(len(words), device=words.device)[:, None]
    until = _forward_scan(_one_hot_log_probs(words[:, :, 0], torch.zeros_like(node_lengths)), links, M)
    onward = _forward_scan(_one_hot_log_probs(words[:, :, 0], node_lengths - 1), links.transpose(1, 2), M)
    to_come = target_lengths[:, None] - 1 - torch.arange(M, device=words.device)  # targets after target i
    node_marginals = (until + onward[sentence, to_come.clamp(min=0)]).softmax(-1)  # [B, M, L]
    return (node_marginals @ words.exp()).clamp(min=torch.finfo(words.dtype).tiny).log()


def _one_hot_log_probs(like: Tensor, node: Tensor) -> Tensor:
    """Returns [B, L] log-probabilities of being at ``node`` [B] for certain."""
    return torch.full_like(like, NEVER).scatter(1, node[:, None], 0.0)


def _forward_scan(start: Tensor, links: Tensor, steps: int) -> Tensor:
    """Returns [B, steps, L] log-probabilities of each node after 0, 1, ... transitions; each row is
    normalised, so that float32 spends its digits on the differences between nodes."""
    rows = [start]
    for _ in range(1, steps):
        rows.append((rows[-1][:, :, None] + links).logsumexp(1).log_softmax(-1))
    return torch.stack(rows, 1)


def ctc_log_probs(words: Tensor, blank: Tensor) -> Tensor:
    """Computes the log-probability that k states emit a word by CTC: a run of it, blanks around it.

    Args:
        words: [..., k, W] log-probability of each word at each state.
        blank: [..., k, 1] that of the blank.

    Returns:
        [..., W] in nats, differentiable.
    """
    word, empty = words.unbind(-2), blank.unbind(-2)
    inside, before = word[0], empty[0]
    after = torch.full_like(inside, NEVER)
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


def ctc_word_log_probs(words: Tensor, blank: int) -> Tensor:
    """Returns log-probabilities [B, M, V] of each target's words by CTC, the blank being none."""
    scores = ctc_log_probs(words, words[..., blank, None])
    return scores.index_fill(-1, torch.tensor([blank], device=words.device), NEVER).log_softmax(-1)
