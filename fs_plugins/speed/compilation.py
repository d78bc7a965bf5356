"""``--compile`` and ``--cuda-graph``: parts of a model as graphs of fixed shapes."""

import functools
import logging
import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn
from torch.utils._triton import has_triton

from fs_plugins.exlm.expansion import Sizes

logger = logging.getLogger(__name__)

MULTIPLE = 8  # lengths go up to a multiple of it, so that a training sees few shapes
SHAPES = 64  # most graphs of one function; whatever comes after them runs eagerly, and PyTorch warns


def compile_parts(parts: Iterable[nn.Module], cuda_graph: bool) -> bool:
    """Compiles the forward and backward passes of modules, at their first calls, and returns whether it does.

    Each shape gets a graph of its own, up to SHAPES of them. With ``cuda_graph`` each is replayed as a CUDA
    graph; on a CPU this changes nothing. Where nothing compiles, a line in the log says so. Raises ValueError
    for ``cuda_graph`` with ROCm.
    """
    if cuda_graph and torch.version.hip:
        raise ValueError(
            "--cuda-graph: ROCm's graphs train wrongly, without an error: give --compile instead"
        )
    if no_compiler():
        return False
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
    for part in parts:
        part.compile(dynamic=False, mode="reduce-overhead" if cuda_graph else "default")
    logger.info("compiled for up to %d shapes; the first updates take minutes", SHAPES)
    return True


def fused_on_gpu(dims: int) -> Callable:
    """Decorator: compiles a function of tensors on a GPU, without a flag, as one graph for all sizes of their
    first ``dims`` dimensions. Where nothing compiles, and in what is compiled, it runs as it is."""

    def decorate(function: Callable) -> Callable:
        compiled = functools.cache(lambda: torch.compile(function, dynamic=False))

        @functools.wraps(function)
        def fused(*tensors: Tensor):
            if not is_on_gpu(tensors[0]) or torch.compiler.is_compiling() or no_compiler():
                return function(*tensors)
            for tensor in tensors:
                torch._dynamo.maybe_mark_dynamic(tensor, tuple(range(dims)))
            return compiled()(*tensors)

        return fused

    return decorate


def is_on_gpu(x: Tensor) -> bool:
    return x.is_cuda


def rounded(sizes: Sizes, T: int, k: int, most: int, p: float | None = None) -> Sizes:
    """Returns sizes that few batches differ in, by more padding; N is at most ``most`` or what it was.

    Args:
        T: tokens of a sentence, padding included.
        p: masking probability. A sentence whose only ``<s>`` and ``</s>`` are its first and last token has at
            most int(p T + 1) masked ones besides: then all batches of T tokens have the same sizes.
    """
    up = -(-T // MULTIPLE) * MULTIPLE
    U, M = up + (sizes.U > T), 2 + int((p or 0) * up + 1)
    if p is None or sizes.M > M or sizes.U > U:
        multiples = MULTIPLE, MULTIPLE // math.gcd(MULTIPLE, k)
        U, M = (-(-n // m) * m for n, m in zip(sizes[1:3], multiples, strict=True))
        N = -(-sizes.N // MULTIPLE) * MULTIPLE
    else:
        N = U + (k - 1) * M
    return Sizes(max(sizes.N, min(N, most)), U, M)


@functools.cache
def no_compiler() -> str | None:
    """Returns why nothing can be compiled, which is logged; None if it can."""
    if reason := _what_lacks():
        logger.warning("nothing is compiled, with --compile or without: %s; the model runs eagerly", reason)
    return reason


def _what_lacks() -> str | None:
    from torch._inductor import cpp_builder, exc  # slow to import

    if torch.cuda.is_available():
        if not has_triton():
            return "Triton is not installed, or does not support this GPU"
        try:  # a first kernel, for which Triton builds a launcher with a C compiler and Python's headers
            torch.compile(torch.neg, dynamic=False)(torch.ones(8, device="cuda"))
        except Exception as error:  # any part of Triton may raise
            return f"Triton cannot compile ({str(error).strip().splitlines()[-1]})"
    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        return "there is no C++ compiler"
    return None
