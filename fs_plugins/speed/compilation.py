"""``--compile`` and ``--cuda-graph``: parts of a model as graphs of fixed shapes."""

import logging
import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.utils._triton import has_triton

from fs_plugins.exlm.expansion import Sizes

logger = logging.getLogger(__name__)

MULTIPLE = 8  # lengths go up to a multiple of it, so that a training sees few shapes
SHAPES = 64  # most graphs of one function; whatever comes after them runs eagerly, and PyTorch warns


def compile_parts(parts: Iterable[nn.Module], cuda_graph: bool) -> bool:
    """Compiles the forward and backward passes of modules, at their first calls, and returns whether it does.

    Each shape gets a graph of its own, up to SHAPES of them. With ``cuda_graph`` each is replayed as a CUDA
    graph; on a CPU this changes nothing. Where nothing compiles, a line in the log says so.
    """
    if reason := no_compiler():
        logger.warning("--compile: %s; the model runs eagerly", reason)
        return False
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
    for part in parts:
        part.compile(dynamic=False, mode="reduce-overhead" if cuda_graph else "default")
    logger.info("compiled for up to %d shapes; the first updates take minutes", SHAPES)
    return True


def rounded(sizes: Sizes, k: int, most: int) -> Sizes:
    """Returns sizes with N (up to ``most``), U and L at multiples of MULTIPLE, by more padding."""
    multiples = MULTIPLE, MULTIPLE, MULTIPLE // math.gcd(MULTIPLE, k)
    N, U, M = (-(-n // m) * m for n, m in zip(sizes[:3], multiples, strict=True))
    return Sizes(max(sizes.N, min(N, most)), U, M)


def no_compiler() -> str | None:
    """Returns why nothing can be compiled; None if it can."""
    from torch._inductor import cpp_builder, exc  # slow to import

    if torch.cuda.is_available() and not has_triton():
        return "Triton is not installed, or does not support this GPU"
    try:
        cpp_builder.get_cpp_compiler()
    except exc.InvalidCxxCompiler:
        return "there is no C++ compiler"
    return None
