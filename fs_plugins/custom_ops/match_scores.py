"""Log-probabilities of the targets at each node, without the logits of all nodes at once."""

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable

CHUNK_BYTES = 256 * 2**20  # of float32 logits alive at a time
HALF = (torch.float16, torch.bfloat16)
ALIGNMENT = 8  # rows of logits are filled up to 16 bytes: products take a sixth of the time on an H100


def match_scores(
    states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, chunk_bytes: int = CHUNK_BYTES
) -> Tensor:
    """match[b, i, u] = log softmax(weight @ states[b, u] + bias)[targets[b, i]].

    With a bias of each of k states, node u has that of state u mod k.

    Logits are computed for a chunk of the nodes at a time; the backward pass computes them again, unless one
    chunk has all nodes, which is then kept. So never more than ``chunk_bytes`` of float32 logits are alive
    (one node's at least), and in half precision as many logits of that type beside them. Matrix products are
    taken in the type of ``states`` (or autocast's), the softmax in float32. On CUDA, gradients of a token
    that is a target of its sentence twice are added up in any order (atomics), so that two runs may differ
    in the last bits.

    Args:
        states: [B, L, d] floating, outputs of the LM head's last layer norm.
        weight: [V, d], the output (embedding) matrix.
        bias: [V], or [k, V] for L a multiple of k.
        targets: [B, M] int64 in 0 .. V - 1; on padding any of them.

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
    with torch.autocast(device_type=device, enabled=False):
        return _MatchScores.apply(states, weight, bias, targets, chunk_bytes)


class _MatchScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx, states, weight, bias, targets, chunk_bytes):
        B, L, _ = states.shape
        rows = states.flatten(0, 1)  # [B * L, d]
        row_targets = targets.repeat_interleave(L, dim=0)  # [B * L, M]
        chunks = _chunks(len(rows), len(weight), chunk_bytes, _biases(bias))
        keep = len(chunks) == 1 and any(ctx.needs_input_grad)
        scores, log_norms, softmax = [], [], None
        for chunk in chunks:
            logits = None  # frees the last chunk before the next
            logits = _logits(rows[chunk], weight, bias)
            if logits.dtype in HALF:  # one kernel, without a copy in float32
                logits = logits.log_softmax(1, dtype=torch.float32)
                scores.append(logits.gather(1, row_targets[chunk]))
                softmax = logits.exp_() if keep else None
                continue
            given = logits.gather(1, row_targets[chunk])
            top = logits.amax(1, keepdim=True)
            total = logits.sub_(top).exp_().sum(1, keepdim=True)
            log_norms.append(total.log().add_(top))
            scores.append(given.sub_(log_norms[-1]))
            softmax = logits.div_(total) if keep else None
        ctx.save_for_backward(states, weight, bias, targets, *log_norms)
        ctx.chunks, ctx.softmax = chunks, softmax
        return _joined(scores).unflatten(0, (B, L)).transpose(1, 2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        states, weight, bias, targets, *log_norms = ctx.saved_tensors
        L = states.shape[1]
        rows = states.flatten(0, 1)
        row_targets = targets.repeat_interleave(L, dim=0)
        row_grads = grad.transpose(1, 2).flatten(0, 1)  # [B * L, M]
        kept, ctx.softmax = ctx.softmax, None  # overwritten below: a second backward pass computes it again
        grad_rows, grad_weight, grad_bias = [], None, None
        for i, chunk in enumerate(ctx.chunks):
            logits = None  # frees the last chunk before the next
            if kept is None:
                logits = _logits(rows[chunk], weight, bias)
                if logits.dtype in HALF:
                    logits = logits.softmax(1, dtype=torch.float32)
                else:
                    logits.sub_(log_norms[i]).exp_()
            else:
                logits = kept
            logits.mul_(row_grads[chunk].sum(1, keepdim=True).neg_())
            logits.scatter_add_(1, row_targets[chunk], row_grads[chunk])  # now the gradient of the logits
            of_bias = logits.unflatten(0, (-1, _biases(bias))).sum(0).view_as(bias)
            logits = logits.to(rows.dtype)
            grad_rows.append(logits @ weight)
            if grad_weight is None:
                grad_weight, grad_bias = logits.t() @ rows[chunk], of_bias
                if len(ctx.chunks) > 1:
                    grad_weight = grad_weight.to(row_grads.dtype)
                continue
            grad_bias += of_bias
            if weight.dtype == grad_weight.dtype:
                grad_weight.addmm_(logits.t(), rows[chunk])
            else:
                grad_weight += logits.t() @ rows[chunk]
        grads = _joined(grad_rows).view_as(states), grad_weight.to(weight.dtype), grad_bias.to(bias.dtype)
        return *grads, None, None


def _biases(bias: Tensor) -> int:
    """How many biases there are: 1, or one for each of k states."""
    return 1 if bias.dim() == 1 else len(bias)


def _logits(rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """[R, V] from rows [R, d], of which each k that follow each other are the states of a token."""
    if bias.dim() == 1:
        return F.linear(rows, weight, bias)
    logits = F.linear(rows, weight)
    logits.unflatten(0, (-1, len(bias))).add_(bias)
    return logits


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _chunks(rows: int, vocabulary: int, chunk_bytes: int, k: int) -> list[slice]:
    """Slices of (nearly) equal size, a multiple of k: a small last one would cost another pass over the
    weight's gradient."""
    tokens = rows // k
    most = max(1, chunk_bytes // (4 * vocabulary * k))
    count = max(1, -(-tokens // most))
    size = k * max(1, -(-tokens // count))
    return [slice(start, min(start + size, rows)) for start in range(0, max(1, rows), size)]
