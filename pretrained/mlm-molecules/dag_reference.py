"""States alignment in plain PyTorch: the compiled op's oracle, and its stand-in where nothing compiles.

The same contract as :mod:`fs_plugins.custom_ops.dag_loss`, which documents shapes and errors; any device and
floating-point type, differentiable by autograd, one step of Python per target. The file imports torch only,
as an export for transformers copies it.
"""

import math

import torch
from torch import Tensor


def dag_loss_reference(match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """Returns the log-probability of each sentence's targets, over all alignments; see ``dag_loss``."""
    B, M, L = match.shape
    if M == 0 or L == 0:
        return match.new_full((B,), -math.inf)
    if match.device.type == "cpu":
        for lengths, most in ((node_lengths, L), (target_lengths, M)):
            if ((lengths < 0) | (lengths > most)).any():
                raise ValueError(
                    f"a length is negative or larger than its dimension ({most}): {lengths.tolist()}"
                )
    # -inf at what is not of the sentence, and at edges v -> u with v >= u
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
    return log_prob.masked_fill(no_path, -math.inf)  # and no gradient


def _log_sum_exp(x: Tensor) -> Tensor:
    """Returns log-sum-exp over dim 1; its gradient at a row of -inf is 0, that of ``torch.logsumexp`` NaN."""
    top = x.detach().amax(dim=1)
    empty = top == -math.inf
    top = top.masked_fill(empty, 0.0)
    total = (x - top[:, None]).exp().sum(dim=1)
    return torch.where(empty, -math.inf, total.masked_fill(empty, 1.0).log() + top)
