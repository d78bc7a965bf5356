"""The DAG op: log-probability of targets under a graph of states, over all alignments (ExLM, section 4.3).

Shapes, for B sentences with up to M targets and L nodes:

=================  ==================  =====================================================================
``match``          [B, M, L] floating  log-probability that node u emits target i, log P_u(y_i)
``links``          [B, L, L] floating  log-probability of the edge v -> u, log E(v, u); -inf where there is
                                       none; read for v < u only
``node_lengths``   [B] integer         n, nodes of each sentence, at most L
``target_lengths`` [B] integer         m, targets of each sentence, at most M
=================  ==================  =====================================================================

The recursion, on what is read of each sentence (indices from 0); csrc/ has the kernels::

    f(0, u) = [u = 0] P_0(y_0)
    f(i, u) = P_u(y_i) * sum over v < u of f(i - 1, v) E(v, u)
    result  = log f(m - 1, n - 1)

A sentence that no path can produce (more targets than nodes, -inf on all paths) has -inf and zero
gradients. Padding beyond n and m is never read and gets zero gradients. float32 and float64 are computed as
such or better (float64 on a GPU by the plain PyTorch reference); half and bfloat16 inputs are computed in
float32, and the result is float32.
"""

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fs_plugins.custom_ops import library
from fs_plugins.exlm.alignment import dag_loss_reference


def dag_loss(match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor) -> Tensor:
    """Computes the log-probability of each sentence's targets; the module's table has the arguments.

    Returns:
        [B] log-probabilities (nats), float64 for float64 inputs, else float32. Differentiable once with
        respect to ``match`` (the posterior probability that node u emits target i) and ``links`` (the
        posterior probability of passing the edge).

    Raises:
        TypeError: for dtypes other than floating match and links, and integer lengths.
        ValueError: for shapes or devices that do not fit each other; on CPU, for lengths beyond L or M.
    """
    arguments = _prepare(match, links, node_lengths, target_lengths)
    no_kernel = match.is_cuda and arguments[0].dtype == torch.float64
    if no_kernel or not _compiled(match.device.type):
        return dag_loss_reference(*arguments)
    return _DagLoss.apply(*arguments)


def node_posteriors(
    match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the probability, given the targets, that node u emits target i, [B, M, L] (0 on padding, and
    without a path); and log-probabilities [B]. Arguments and errors are those of :func:`dag_loss`."""
    with torch.enable_grad():
        match = match.detach().requires_grad_()
        log_probs = dag_loss(match, links.detach(), node_lengths, target_lengths)
        (posteriors,) = torch.autograd.grad(log_probs.sum(), match)
    return posteriors, log_probs.detach()


def _compiled(device_type: str) -> bool:
    """Returns whether there is a kernel for tensors of this device; if not, plain PyTorch serves."""
    return device_type in ("cpu", "cuda") and library.load(device_type) is not None


def _prepare(
    match: Tensor, links: Tensor, node_lengths: Tensor, target_lengths: Tensor
) -> tuple[Tensor, ...]:
    """Checks the arguments and returns them in the op's types."""
    if match.dim() != 3:
        raise ValueError(f"match must be [B, M, L], got shape {tuple(match.shape)}")
    B, M, L = match.shape
    for name, tensor, shape, is_floating in (
        ("match", match, (B, M, L), True),
        ("links", links, (B, L, L), True),
        ("node_lengths", node_lengths, (B,), False),
        ("target_lengths", target_lengths, (B,), False),
    ):
        found = f"{tensor.dtype} of shape {tuple(tensor.shape)} on {tensor.device}"
        if tuple(tensor.shape) != shape or tensor.device != match.device:
            raise ValueError(f"{name} must have shape {shape} and be on {match.device}, got {found}")
        if tensor.is_floating_point() != is_floating or tensor.dtype == torch.bool or tensor.is_complex():
            raise TypeError(f"{name} must be {'floating-point' if is_floating else 'integers'}, got {found}")
    double = torch.float64 in (match.dtype, links.dtype)
    dtype = torch.float64 if double else torch.float32
    return match.to(dtype), links.to(dtype), node_lengths.to(torch.int64), target_lengths.to(torch.int64)


# ---- Registration: schema, kernels, shapes for tracing; the gradient is outside of the operators.

torch.library.define(
    "exlm::dag_forward",
    "(Tensor match, Tensor links, Tensor node_lengths, Tensor target_lengths) "
    "-> (Tensor log_prob, Tensor alpha)",  # alpha [B, M, L], on CUDA [B, M, L, 2], for the backward pass
)
torch.library.define(
    "exlm::dag_backward",
    "(Tensor grad_log_prob, Tensor match, Tensor links, Tensor node_lengths, Tensor target_lengths, "
    "Tensor alpha) -> (Tensor grad_match, Tensor grad_links)",
)


class _DagLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, match, links, node_lengths, target_lengths):
        # match_scores gives a view: one copy for both passes
        inputs = [t.contiguous() for t in (match, links, node_lengths, target_lengths)]
        log_prob, alpha = torch.ops.exlm.dag_forward.default(*inputs)
        ctx.save_for_backward(*inputs, alpha)
        return log_prob

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_log_prob):
        gradients = torch.ops.exlm.dag_backward.default(grad_log_prob.contiguous(), *ctx.saved_tensors)
        return *gradients, None, None


@torch.library.register_fake("exlm::dag_forward")
def _forward_results(match, links, node_lengths, target_lengths):
    if match.is_cuda:
        return match.new_empty(len(match)), match.new_empty((*match.shape, 2))  # exponent and mantissa
    return match.new_empty(len(match)), torch.empty_like(match, dtype=torch.float64)


@torch.library.register_fake("exlm::dag_backward")
def _backward_results(grad_log_prob, match, links, node_lengths, target_lengths, alpha):
    return torch.empty_like(match), torch.empty_like(links)


@torch.library.impl("exlm::dag_forward", ("cpu", "cuda"))
def _forward(match, *others):
    outputs = _forward_results(match, *others)
    _call("forward", match, (match, *others, *outputs))
    return outputs


@torch.library.impl("exlm::dag_backward", ("cpu", "cuda"))
def _backward(grad_log_prob, match, *others):
    outputs, (B, M, L) = _backward_results(grad_log_prob, match, *others), match.shape
    workspace = [match.new_empty((B, M, L, 2))] if match.is_cuda else []
    _call("backward", match, (grad_log_prob, match, *others, *outputs, *workspace))
    return outputs


def _call(name: str, match: Tensor, tensors: tuple[Tensor, ...]) -> None:
    """Calls the library's function of a pass with contiguous tensors in the order of csrc/dag.h."""
    device, sizes = match.device.type, match.shape
    function = f"exlm_dag_{name}_{device}"
    compiled = library.load(device)
    if compiled is None:
        raise RuntimeError(f"{function}: there is no compiled library; call dag_loss instead")
    if device == "cpu":
        sizes = library.FLOAT64 if match.dtype == torch.float64 else library.FLOAT32, *sizes
    with torch.cuda.device_of(match):  # does nothing on a CPU
        last = torch.cuda.current_stream().cuda_stream if match.is_cuda else torch.get_num_threads()
        code = getattr(compiled, function)(*sizes, *[t.data_ptr() for t in tensors], last)
    if code != 0:
        library.check(code, f"{function} with match {tuple(match.shape)}", compiled)
