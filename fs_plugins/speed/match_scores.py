"""Log-probabilities of the targets at each node.

The gradient is written by hand, so that the softmax overwrites the logits. In plain PyTorch (``log_softmax``
and ``gather`` of a chunk, under ``torch.utils.checkpoint``) forward and backward pass take 6.27 instead of
5.56 s and 702 instead of 435 MiB in float32, 4.08 instead of 4.62 s and 554 instead of 560 MiB in bfloat16.
Timed was ``torch.autograd.grad(scores(*leaves, targets), leaves, grad)`` at B = 16, M = 22, L = 88, V =
50,265, d = 768: medians of 3 calls in turns, CPU time of one thread of an AMD EPYC with AVX-512 (bfloat16,
too), 2026-11-29, torch 2.13.0.
"""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 256 * 2**20  # most bytes of float32 logits alive at a time on a CPU
CUDA_SHARE = 16  # fraction of a GPU's memory instead
MOST_LOGITS = 2**31 - 1  # most of a chunk: beyond, kernels count in 64 bits, which is slower, if they can
HALF = (torch.float16, torch.bfloat16)
# Rows of logits begin at multiples of so many numbers: products with other rows take one and a half times as
# long on a CPU, and in half precision six times as long on an H100.
ALIGNMENT = 16


def match_scores(
    states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, chunk_bytes: int | None = None
) -> Tensor:
    """Returns match[b, i, u] = log softmax(weight @ states[b, u] + bias)[targets[b, i]].

    Matrix products are taken in the type of ``states`` (or autocast's), the softmax in float32. Logits are
    kept for the backward pass, in the type of the products, if ``chunk_bytes`` hold all of them. Otherwise
    they are computed for a chunk of the nodes at a time, and again in the backward pass; then never more
    than ``chunk_bytes`` of float32 logits are alive (one token's at least).

    Args:
        states: [B, L, d] floating, outputs of the LM head's last layer norm.
        weight: [V, d], the output (embedding) matrix.
        bias: [V].
        targets: [B, M] int64 in 0 .. V - 1; on padding any of them.
        chunk_bytes: by default a sixteenth of a GPU's memory, and 256 MiB elsewhere.

    Returns:
        [B, M, L] float32 (float64 for float64 states).
    """
    device = states.device.type
    if torch.is_autocast_enabled(device):
        dtype = torch.get_autocast_dtype(device)
        states, weight, bias = states.to(dtype), weight.to(dtype), bias.to(dtype)
    if weight.dtype in HALF and (missing := -len(weight) % ALIGNMENT):
        weight = F.pad(weight, (0, 0, 0, missing))
        bias = F.pad(bias, (0, missing), value=-torch.inf)  # no probability
    if chunk_bytes is None:  # a share of a GPU's whole memory, not of what is free: the same at each step
        on_gpu = device == "cuda"
        memory = torch.cuda.get_device_properties(states.device).total_memory if on_gpu else 0
        chunk_bytes = memory // CUDA_SHARE or CHUNK_BYTES
    rows, V = states.shape[0] * states.shape[1], len(weight)
    most = max(1, min(chunk_bytes // (4 * V), MOST_LOGITS // (V + -V % ALIGNMENT)))
    chunks = max(1, -(-rows // most))  # equal sizes: a small last one would cost as much as others
    size = max(1, -(-rows // chunks))
    with torch.autocast(device_type=device, enabled=False):
        return _MatchScores.apply(states, weight, bias, targets, size)


class _MatchScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, weight, bias, targets, size):
        B, L, _ = states.shape
        rows = states.flatten(0, 1)  # [B * L, d]
        row_targets = targets.repeat_interleave(L, dim=0)  # [B * L, M]
        ctx.size = size
        scores, log_norms, logits = [], [], None
        for chunk, wanted in zip(rows.split(size), row_targets.split(size), strict=True):
            logits = None  # frees the last chunk before the next
            logits, norms = _normalized(_logits(chunk, weight, bias))
            scores.append(logits.gather(1, wanted) - norms)
            log_norms.append(norms)
        scores = torch.cat(scores)
        ctx.save_for_backward(states, weight, bias, targets, scores, torch.cat(log_norms))
        ctx.logits = logits if len(rows) <= size and any(ctx.needs_input_grad) else None
        return scores.unflatten(0, (B, L)).transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        states, weight, bias, targets, scores, log_norms = ctx.saved_tensors
        rows = states.flatten(0, 1)
        row_targets = targets.repeat_interleave(states.shape[1], dim=0)
        # d loss / d logit_v = sum_i g_i [y_i = v] - p_v sum_i g_i, for the gradients g_i of a row's scores.
        # The first term is written before logits are rounded: no pass over all logits, no atomics.
        same = (targets[:, :, None] == targets[:, None]).to(grad.dtype)  # [B, M, M]
        minus = grad.sum(1).flatten()[:, None].neg_()  # [B * L, 1]
        at_targets = (grad.transpose(1, 2) @ same).flatten(0, 1).addcmul_(scores.exp(), minus)  # [B * L, M]
        logits, ctx.logits = ctx.logits, None  # overwritten below: a second backward pass computes them again
        grad_rows, grad_weight, grad_bias = [], None, None
        parts = (t.split(ctx.size) for t in (rows, row_targets, log_norms, minus, at_targets))
        for chunk, wanted, norms, factors, known in zip(*parts, strict=True):
            if logits is None:
                logits, _ = _normalized(_logits(chunk, weight, bias))
            logits = _softmax_times(logits, norms, factors)
            logits = logits.scatter_(1, wanted, known.to(logits.dtype))[:, : len(weight)]
            grad_rows.append(logits @ weight)
            of_bias = logits.sum(0, dtype=grad.dtype)
            if grad_weight is None:
                grad_weight, grad_bias = logits.t() @ chunk, of_bias
                if len(rows) > ctx.size:  # sums in float32
                    grad_weight = grad_weight.to(grad.dtype)
            else:
                grad_weight += logits.t() @ chunk
                grad_bias += of_bias
            logits = None  # frees this chunk before the next
        grads = torch.cat(grad_rows).view_as(states), grad_weight.to(weight.dtype), grad_bias.to(bias.dtype)
        return *grads, None, None


def _normalized(logits: Tensor) -> tuple[Tensor, Tensor]:
    """Returns logits [R, V], and what to subtract from them for log-probabilities, [R, 1] float32.

    Unless they are in half precision, they become log-probabilities."""
    if logits.dtype in HALF:
        return logits, logits[:, :1] - logits.log_softmax(1, dtype=torch.float32)[:, :1]
    return torch.log_softmax(logits, 1, out=logits), logits.new_zeros(len(logits), 1)


def _softmax_times(logits: Tensor, log_norms: Tensor, factors: Tensor) -> Tensor:
    """Returns exp(logits - log_norms) * factors [R, 1], written over the logits."""
    if logits.dtype in HALF:
        return torch.mul((logits - log_norms).exp_(), factors, out=logits)
    return logits.exp_().mul_(factors)


def _logits(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Returns logits [R, V] of rows [R, d], and columns of -inf up to the alignment."""
    V = len(weight)
    buffer = rows.new_empty(len(rows), V + -V % ALIGNMENT)
    buffer[:, V:] = -torch.inf
    torch.addmm(bias, rows, weight.t(), out=buffer[:, :V])
    return buffer
