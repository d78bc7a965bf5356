"""The DAG op: log-probability of targets under a graph of states, over all alignments (ExLM, section 4.3).

Shapes, for B sentences with up to M targets and L nodes:

=================  ==================  =====================================================================
``match``          [B, M, L] floating  log-probability that node u emits target i, log P_u(y_i)
``links``          [B, L, L] floating  log-probability of the edge v -> u, log E(v, u); -inf where there is
                                       none; read for v < u only
``node_lengths``   [B] integer         n, nodes of each sentence, at most L
``target_lengths`` [B] integer         m, targets of each sentence, at most M
=================  ==================  =====================================================================

The recursion, on what is read of each sentence (indices from 0)::

    f(0, u) = [u = 0] P_0(y_0)
    f(i, u) = P_u(y_i) * sum over v < u of f(i - 1, v) E(v, u)
    result  = log f(m - 1, n - 1)

A sentence that no path can produce (more targets than nodes, -inf on all paths) has -inf and zero
gradients. Padding beyond n and m is never read and gets zero gradients. float32 and float64 are computed as
such or better; half and bfloat16 inputs are computed in float32, and the result is float32.
"""

import torch
from torch import Tensor

from fs_plugins.custom_ops import library
from fs_plugins.custom_ops.dag_reference import dag_best_alignment_reference, dag_loss_reference


def dag_loss(match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """Log-probability of each sentence's targets.

    Args:
        match: [B, M, L], see the module's table.
        links: [B, L, L].
        node_lengths: [B].
        target_lengths: [B].

    Returns:
        [B] log-probabilities (nats), float64 for float64 inputs, else float32. Differentiable once with
        respect to ``match`` (the posterior probability that node u emits target i) and ``links`` (the
        posterior probability of passing the edge).

    Raises:
        TypeError: for dtypes other than floating match and links, and integer lengths.
        ValueError: for shapes or devices that do not fit each other; on CPU, for lengths beyond L or M.
    """
    arguments = _prepare(match, links, node_lengths, target_lengths)
    if not _compiled(match.device.type):
        return dag_loss_reference(*arguments)
    # match_scores gives a view: one copy for both passes
    return _dag_forward(*(argument.contiguous() for argument in arguments))[0]


def node_posteriors(
    match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """[B, M, L] the probability, given the targets, that node u emits target i (0 on padding, and without a
    path); and the log-probabilities [B] of :func:`dag_loss`, which documents arguments and errors."""
    with torch.enable_grad():
        match = match.detach().requires_grad_()
        log_probs = dag_loss(match, links.detach(), node_lengths, target_lengths)
        (posteriors,) = torch.autograd.grad(log_probs.sum(), match)
    return posteriors, log_probs.detach()


def dag_best_alignment(match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """The single most probable alignment of each sentence (Viterbi).

    Arguments and errors are those of :func:`dag_loss`. Ties go to the earliest predecessor.

    Returns:
        [B, L] int64: the index of the target that each node emits, -1 for nodes off the best path, and for
        all nodes of a sentence without a path.
    """
    arguments = _prepare(match.detach(), links.detach(), node_lengths, target_lengths)
    if _compiled(match.device.type):
        return _dag_best_alignment(*arguments)
    return dag_best_alignment_reference(*arguments)


def _compiled(device_type: str) -> bool:
    """Whether there is a kernel for tensors of this device; if not, plain PyTorch serves."""
    return device_type in ("cpu", "cuda") and library.load(device_type) is not None


# All that torch.compiler.assume_constant_result does beside importing torch._dynamo (1.7 s of every process).
_compiled._dynamo_marked_constant = True


def _prepare(
    match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor
) -> tuple[Tensor, ...]:
    """Checks the arguments and brings them to the op's types."""
    if match.dim() != 3:
        raise ValueError(f"match must be [B, M, L], got shape {tuple(match.shape)}")
    B, _, L = match.shape
    for name, tensor, shape in (
        ("links", links, (B, L, L)),
        ("node_lengths", node_lengths, (B,)),
        ("target_lengths", target_lengths, (B,)),
    ):
        if tuple(tensor.shape) != shape:
            raise ValueError(
                f"{name} must have shape {shape} to go with match {tuple(match.shape)}, "
                f"got {tuple(tensor.shape)}"
            )
        if tensor.device != match.device:
            raise ValueError(
                f"{name} is on {tensor.device}, match on {match.device}: all must be on one device"
            )
    for name, tensor in (("match", match), ("links", links)):
        if not tensor.is_floating_point():
            raise TypeError(f"{name} must be floating-point, got {tensor.dtype}")
    for name, tensor in (("node_lengths", node_lengths), ("target_lengths", target_lengths)):
        if tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"{name} must be integers, got {tensor.dtype}")
    double = torch.float64 in (match.dtype, links.dtype)
    dtype = torch.float64 if double else torch.float32
    return match.to(dtype), links.to(dtype), node_lengths.to(torch.int64), target_lengths.to(torch.int64)


# ---- Registration: schema, kernel by device, shapes for tracing, gradient.


@torch.library.custom_op("exlm::dag_forward", mutates_args=())
def _dag_forward(
    match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """(log_prob [B], alpha [B, M, L], on CUDA [B, M, L, 2]); alpha is kept for the backward pass."""
    outputs = _forward_outputs(match)
    _call("forward", match, links, node_lengths, target_lengths, *outputs)
    return outputs


@torch.library.custom_op("exlm::dag_backward", mutates_args=())
def _dag_backward(
    grad_log_prob: Tensor,
    match: Tensor,
    links: Tensor,
    node_lengths: Tensor,
    target_lengths: Tensor,
    alpha: Tensor,
) -> tuple[Tensor, Tensor]:
    """(grad_match [B, M, L], grad_links [B, L, L])."""
    outputs = _backward_outputs(match, links)
    inputs = match, links, node_lengths, target_lengths, alpha
    _call("backward", grad_log_prob.to(match.dtype), *inputs, *outputs)
    return outputs


@torch.library.custom_op("exlm::dag_best_alignment", mutates_args=())
def _dag_best_alignment(match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """[B, L] int64."""
    alignment = _alignment_output(match)
    _call("best_alignment", match, links, node_lengths, target_lengths, alignment)
    return alignment


def _call(name: str, *tensors: Tensor) -> None:
    """Calls the library's function of a pass, with tensors in the order of csrc/dag.h; outputs must be
    contiguous."""
    tensors = [t.contiguous() for t in tensors]
    match = next(t for t in tensors if t.dim() == 3)
    kind = match.device.type
    function = f"exlm_dag_{name}_{kind}"
    compiled = library.load(kind)
    if compiled is None:
        raise RuntimeError(f"{function}: there is no compiled library; call dag_loss or dag_best_alignment")
    sizes = (library.FLOAT64 if match.dtype == torch.float64 else library.FLOAT32, *match.shape)
    pointers = [t.data_ptr() for t in tensors]
    if kind == "cpu":
        code = getattr(compiled, function)(*sizes, *pointers, torch.get_num_threads())
    else:
        with torch.cuda.device(match.device):
            size = compiled.exlm_dag_workspace_cuda(library.PASSES[name], *sizes)
            workspace = match.new_empty(size, dtype=torch.uint8)
            stream = torch.cuda.current_stream().cuda_stream
            code = getattr(compiled, function)(*sizes, *pointers, workspace.data_ptr(), stream)
    library.check(code, f"{function} with match {tuple(match.shape)}", compiled)


@_dag_forward.register_fake
def _forward_shapes(match, links, node_lengths, target_lengths):
    return _forward_outputs(match)


@_dag_backward.register_fake
def _backward_shapes(grad_log_prob, match, links, node_lengths, target_lengths, alpha):
    return _backward_outputs(match, links)


@_dag_best_alignment.register_fake
def _alignment_output(match, links=None, node_lengths=None, target_lengths=None):
    return match.new_empty((match.shape[0], match.shape[2]), dtype=torch.int64)


def _forward_outputs(match: Tensor) -> tuple[Tensor, Tensor]:
    if match.is_cuda:  # mantissa and exponent
        alpha = match.new_empty((*match.shape, 2))
    else:
        alpha = match.new_empty(match.shape, dtype=torch.float64)
    return match.new_empty(match.shape[0]), alpha


def _backward_outputs(match: Tensor, links: Tensor) -> tuple[Tensor, Tensor]:
    return match.new_empty(match.shape), links.new_empty(links.shape)


def _save_for_backward(ctx, inputs, output) -> None:
    ctx.save_for_backward(*inputs, output[1])


def _gradient(ctx, grad_log_prob: Tensor, grad_alpha: Tensor) -> tuple[Tensor | None, ...]:
    return (*_dag_backward(grad_log_prob, *ctx.saved_tensors), None, None)


_dag_forward.register_autograd(_gradient, setup_context=_save_for_backward)
