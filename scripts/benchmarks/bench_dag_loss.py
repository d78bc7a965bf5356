"""Time and memory of the DAG op over those of its plain PyTorch reference.

Implementations take turns in one process, on the same random graphs; medians over the repeats. On CUDA,
"device" means the times of replaying calls as a CUDA graph, which leaves out what Python and the launches
cost.

    cd scripts/benchmarks
    python bench_dag_loss.py                             # CPU
    python bench_dag_loss.py --device cuda               # 64 x 21 x 84 and 64 x 77 x 316
    python bench_dag_loss.py --device cuda --shapes 8x40x160 --dtypes float32 bfloat16 --repeats 50
"""

import argparse
import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Callable

import torch
from step_costs import peak_of_allocations, print_head
from torch import Tensor
from torch.utils.benchmark import Timer

from fs_plugins.custom_ops import library
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.exlm.alignment import dag_loss_reference

DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "float16", "bfloat16")}
SHAPES = {"cpu": ["16x21x84", "2x77x316"], "cuda": ["64x21x84", "64x77x316"]}
IMPLEMENTATIONS = {"compiled": dag_loss, "reference": dag_loss_reference}
GRAPH_CALLS = 10  # calls in a CUDA graph, so that its own launch (some us) is no large part of each


def parse_shape(text: str) -> tuple[int, int, int]:
    B, M, L = map(int, text.split("x"))
    return B, M, L


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu", help="default: %(default)s")
    shapes = "sentences x targets x nodes (default: 16x21x84 2x77x316; cuda: 64x21x84 64x77x316)"
    add("--shapes", nargs="+", type=parse_shape, default=[], help=shapes)
    add("--dtypes", nargs="+", choices=DTYPES, default=["float32"], help="default: float32")
    add("--repeats", type=int, default=20, help="default: %(default)s")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device (torch.cuda.is_available() is False)")
    if library.load(args.device) is None:
        parser.error(f"there is no compiled op for {args.device}: build it (pip install -e .)")
    args.shapes = args.shapes or [parse_shape(text) for text in SHAPES[args.device]]
    return args


def random_graphs(B: int, M: int, L: int) -> tuple[Tensor, ...]:
    """Returns match [B, M, L], links [B, L, L], node lengths and target lengths [B]."""
    generator = torch.Generator().manual_seed(1)
    match = -5 * torch.rand(B, M, L, generator=generator)
    later = torch.ones(L, L, dtype=torch.bool).triu(1)
    links = torch.randn(B, L, L, generator=generator).masked_fill(~later, -math.inf).log_softmax(-1)
    links[:, -1] = -math.inf  # the last node has no successor
    return match, links, torch.full((B,), L), torch.full((B,), M)


def make_passes(implementation: Callable, inputs: tuple[Tensor, ...]) -> dict[str, Callable[[], object]]:
    """Returns what is timed, by name."""
    match, links, *lengths = inputs
    leaves = [tensor.detach().requires_grad_() for tensor in (match, links)]

    def forward():
        with torch.no_grad():
            return implementation(*leaves, *lengths)

    def both():
        log_prob = implementation(*leaves, *lengths)
        return torch.autograd.grad(log_prob, leaves, torch.ones_like(log_prob))

    passes = {"forward": forward, "fwd+bwd": both}
    return passes | (
        {f"device {name}": as_graph(run) for name, run in passes.items()} if match.is_cuda else {}
    )


def as_graph(function: Callable[[], object]) -> Callable[[], object]:
    """Returns the function's kernels, GRAPH_CALLS times, as one CUDA graph, to be launched at once."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(GRAPH_CALLS):
            function()
    return graph.replay


def measure(args: argparse.Namespace, shape: tuple[int, int, int], dtype: str) -> list[dict[str, str]]:
    """Returns rows of the table for a shape and a dtype, one an implementation; times in ms."""
    match, links, *lengths = (tensor.to(args.device) for tensor in random_graphs(*shape))
    inputs = match.to(DTYPES[dtype]), links.to(DTYPES[dtype]), *lengths
    passes = {name: make_passes(implementation, inputs) for name, implementation in IMPLEMENTATIONS.items()}
    samples, calls = defaultdict(list), 20 if match.is_cuda else 1  # calls of one sample
    for _ in range(args.repeats):
        for name, own in passes.items():
            for which, run in own.items():
                timer = Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
                each = GRAPH_CALLS if which.startswith("device") else 1
                samples[name, which].append(1e3 * timer.timeit(calls).mean / each)
    times = {key: statistics.median(values) for key, values in samples.items()}
    rows = []
    for name, own in passes.items():
        row = {"B x M x L": " x ".join(map(str, shape)), "dtype": dtype, "implementation": name}
        row |= {which: f"{times[name, which]:.4g}" for which in own}
        for which in (name for name in own if name.endswith("bwd")):
            row[f"{which}: times faster"] = f"{times['reference', which] / times[name, which]:.1f}"
        peak = peak_of_allocations(own["fwd+bwd"], args.device)
        rows.append(row | {"peak MiB": f"{peak / 2**20:,.1f}"})
    return rows


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    print_head("bench_dag_loss.py", argv, args.device, f"medians of {args.repeats}, in ms")
    for number, (shape, dtype) in enumerate(itertools.product(args.shapes, args.dtypes)):
        rows = measure(args, shape, dtype)
        if number == 0:
            print(f"| {' | '.join(rows[0])} |\n|{'---|' * len(rows[0])}")
        for row in rows:
            print(f"| {' | '.join(row.values())} |", flush=True)


if __name__ == "__main__":
    main()
