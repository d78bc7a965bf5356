"""Log-probabilities of the targets at each node, without the logits of all nodes at once."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 256 * 2**20  # of float32 logits alive at a time


def match_scores(
    states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, chunk_bytes: int = CHUNK_BYTES
) -> Tensor:
    """match[b, i, u] = log softmax(weight @ states[b, u] + bias)[targets[b, i]].

    Logits are computed for a chunk of the nodes at a time; the backward pass computes them again, unless one
    chunk has all nodes, which is then kept. So never more than ``chunk_bytes`` of float32 logits are alive
    (one node's at least), and in half precision as many logits of that type beside them. Matrix products are
    taken in the type of ``states`` (or autocast's), the softmax in float32. On CUDA, gradients of a token
    that is a target of its sentence twice are added up in any order (atomics), so that two runs may differ
    in the last bits.

    Args:
        states: [B, L, d] floating, outputs of the LM head's last layer norm.
        weight: [V, d], the output (embedding) matrix.
        bias: [V].
        targets: [B, M] int64 in 0 .. V - 1; on padding any of them.

    Returns:
        [B, M, L] float32 (float64 for float64 states).

    Raises:
        ValueError: for shapes that do not fit each other.
    """
    B, L, d = states.shape
    if weight.shape[1:] != (d,) or bias.shape != weight.shape[:1] or targets.shape[:1] != (B,):
        raise ValueError(
            f"states {tuple(states.shape)}, weight {tuple(weight.shape)}, bias {tuple(bias.shape)} and "
            f"targets {tuple(targets.shape)} do not fit: they must be [B, L, d], [V, d], [V] and [B, M]"
        )
    device = states.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        states, weight, bias = states.to(dtype), weight.to(dtype), bias.to(dtype)
    with torch.autocast(device_type=device, enabled=False):
        return _MatchScores.apply(states, weight, bias, targets, chunk_bytes)


class _MatchScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, weight, bias, targets, chunk_bytes):
        B, L, _ = states.shape
        rows = states.flatten(0, 1)  # [B * L, d]
        row_targets = targets.repeat_interleave(L, dim=0)  # [B * L, M]
        compute = torch.float64 if states.dtype == torch.float64 else torch.float32
        scores = torch.empty(row_targets.shape, dtype=compute, device=states.device)
        log_norms = torch.empty(len(rows), dtype=compute, device=states.device)
        chunks = _chunks(len(rows), len(weight), chunk_bytes)
        for rows_slice in chunks:
            softmax = None  # frees the last chunk before the next
            softmax = F.linear(rows[rows_slice], weight, bias).to(compute)
            scores[rows_slice] = softmax.gather(1, row_targets[rows_slice])
            top = softmax.amax(1, keepdim=True)
            total = softmax.sub_(top).exp_().sum(1, keepdim=True)
            log_norms[rows_slice] = (total.log() + top)[:, 0]
            if len(chunks) == 1 and any(ctx.needs_input_grad):
                softmax.div_(total)
        ctx.save_for_backward(states, weight, bias, targets, log_norms)
        ctx.chunks = chunks
        ctx.softmax = softmax if len(chunks) == 1 else None
        return scores.sub_(log_norms[:, None]).unflatten(0, (B, L)).transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        states, weight, bias, targets, log_norms = ctx.saved_tensors
        L = states.shape[1]
        rows = states.flatten(0, 1)
        row_targets = targets.repeat_interleave(L, dim=0)
        row_grads = grad.transpose(1, 2).flatten(0, 1).to(log_norms.dtype)  # [B * L, M]
        grad_rows = torch.empty_like(rows)
        grad_weight = torch.zeros(weight.shape, dtype=log_norms.dtype, device=weight.device)
        grad_bias = torch.zeros(bias.shape, dtype=log_norms.dtype, device=bias.device)
        kept, ctx.softmax = ctx.softmax, None  # overwritten below: a second backward pass computes it again
        for chunk in ctx.chunks:
            logits = None  # frees the last chunk before the next
            if kept is None:
                logits = F.linear(rows[chunk], weight, bias).to(log_norms.dtype)
                logits = logits.sub_(log_norms[chunk, None]).exp_()
            else:
                logits = kept
            logits.mul_(row_grads[chunk].sum(1, keepdim=True).neg_())
            logits.scatter_add_(1, row_targets[chunk], row_grads[chunk])  # now the gradient of the logits
            grad_bias += logits.sum(0)
            logits = logits.to(rows.dtype)
            grad_rows[chunk] = logits @ weight
            if weight.dtype == grad_weight.dtype:
                grad_weight.addmm_(logits.t(), rows[chunk])
            else:
                grad_weight += logits.t() @ rows[chunk]
        return grad_rows.view_as(states), grad_weight.to(weight.dtype), grad_bias.to(bias.dtype), None, None


def _chunks(rows: int, vocabulary: int, chunk_bytes: int) -> list[slice]:
    size = max(1, chunk_bytes // (4 * vocabulary))
    return [slice(start, min(start + size, rows)) for start in range(0, rows, size)]
