"""What the benchmarks measure beside time: memory and operators."""

import math
import platform
import shlex
import sys
from collections import Counter
from datetime import date

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


def print_head(script: str, argv: list[str] | None, device: str, note: str) -> None:
    """Prints the day, the machine, the command and what stands in the table below."""
    machine = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    print(f"{date.today()}, {machine}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    words = sys.argv[1:] if argv is None else argv
    print(f"python scripts/benchmarks/{script} {shlex.join(words)}".rstrip())
    print(f"{note}\n")


def peak_of_allocations(function, device: str = "cpu") -> int:
    """Returns the most bytes of tensors that were alive at a time of those that the call allocated there."""
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        function()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    return peak


class OperatorCounter(TorchDispatchMode):
    """Counts the operators that are called within it, forward and backward, views apart; those that our
    own operators call count, too.

    Attributes:
        calls: number of calls by the operator's name.
        nbytes: size of all their inputs and outputs.
    """

    def __init__(self):
        super().__init__()
        self.calls: Counter[str] = Counter()
        self.nbytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func.namespace == "exlm":
            key = torch._C._dispatch_key_parse(args[0].device.type.upper())
            with self:  # around the operator's own kernel
                result = func.redispatch(torch._C.DispatchKeySet(key), *args, **kwargs)
        else:
            result = func(*args, **kwargs)
        if not func.is_view and func.namespace != "profiler":
            self.calls[str(func)] += 1
            self.nbytes += sum(map(size_in_memory, tree_leaves((args, kwargs, result))))
        return result


def size_in_memory(value) -> int:
    """Returns the bytes of a tensor's elements, each once where it is expanded; 0 of what is no tensor."""
    if not isinstance(value, Tensor):
        return 0
    sizes = zip(value.shape, value.stride(), strict=True)
    return math.prod(size if stride else min(size, 1) for size, stride in sizes) * value.element_size()
