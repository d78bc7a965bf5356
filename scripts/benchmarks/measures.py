"""What the benchmarks measure beside time: memory, operators, and the launches and busy time of a GPU."""

from __future__ import annotations

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
    """The day, the machine, the command and what stands in the table below."""
    machine = torch.cuda.get_device_name() if device == "cuda" else platform.processor() or platform.machine()
    print(f"{date.today()}, {machine}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    words = sys.argv[1:] if argv is None else argv
    print(f"python scripts/benchmarks/{script} {shlex.join(words)}".rstrip())
    print(f"{note}\n")


def peak_of_cpu_allocations(function) -> int:
    """The most bytes of tensors that were alive at a time of those that the call allocated."""
    with torch.profiler.profile(profile_memory=True) as profile:
        function()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    return peak


def peak_of_cuda_allocations(function) -> int:
    """The same on the current GPU."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    function()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


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
        if not func.is_view:
            self.calls[str(func)] += 1
            self.nbytes += sum(map(size_in_memory, tree_leaves((args, kwargs, result))))
        return result


def size_in_memory(value) -> int:
    """Bytes of a tensor's elements, each once where it is expanded; 0 of what is no tensor."""
    if not isinstance(value, Tensor):
        return 0
    sizes = zip(value.shape, value.stride(), strict=True)
    elements = 1
    for size, stride in sizes:
        elements *= size if stride != 0 else min(size, 1)
    return elements * value.element_size()


def launches_and_busy_seconds(function) -> tuple[int, float]:
    """How many kernels, copies and fills the call runs on the GPU, and for how long there is any."""
    torch.cuda.synchronize()
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        function()
        torch.cuda.synchronize()
    spans = [
        (event.start_ns(), event.start_ns() + event.duration_ns())
        for event in profile.profiler.kineto_results.events()
        if event.device_type() == torch.autograd.DeviceType.CUDA and not event.is_user_annotation()
    ]
    return len(spans), union_of_spans(spans) / 1e9


def union_of_spans(spans: list[tuple[int, int]]) -> int:
    """Length of what intervals (start, end) cover together."""
    covered, reached = 0, None
    for start, end in sorted(spans):
        if reached is None or start > reached:
            reached = start
        covered += max(0, end - reached)
        reached = max(reached, end)
    return covered
