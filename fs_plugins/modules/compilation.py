"""``--compile`` and ``--cuda-graph``: parts of a model as graphs of fixed shapes."""

from collections.abc import Iterable

import torch
from torch import nn

MULTIPLE = 8  # lengths go up to a multiple of it, so that a training sees few shapes
SHAPES = 64  # most graphs of one function; whatever comes after them runs eagerly, and PyTorch warns


def compile_parts(parts: Iterable[nn.Module], cuda_graph: bool) -> None:
    """Compiles the forward and backward passes of modules, at their first calls.

    Each shape gets a graph of its own, up to SHAPES of them. With ``cuda_graph`` each is replayed as a CUDA
    graph; on a CPU this changes nothing.
    """
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, SHAPES)
    for part in parts:
        part.compile(dynamic=False, mode="reduce-overhead" if cuda_graph else "default")
