"""Memory of a call on the CPU, as the benchmarks measure it."""

from __future__ import annotations

import torch


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
