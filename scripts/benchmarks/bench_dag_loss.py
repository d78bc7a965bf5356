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
import math
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable

import torch
from measures import peak_of_cpu_allocations, peak_of_cuda_allocations, print_head
from torch import Tensor
from torch.utils.benchmark import Timer

from fs_plugins.custom_ops import library
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.custom_ops.dag_reference import dag_loss_reference

IMPLEMENTATIONS = {"compiled": dag_loss, "reference": dag_loss_reference}
DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "float16", "bfloat16")}
SHAPES = {"cpu": ["16x21x84", "2x77x316"], "cuda": ["64x21x84", "64x77x316"]}
GRAPH_CALLS = 10  # calls in a CUDA graph, so that its own launch (some us) is no large part of each


def parse_shape(text: str) -> tuple[int, int, int]:
    found = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text)
    B, M, L = map(int, found.groups()) if found else (0, 0, 0)
    if B < 1 or not 2 <= M <= L:
        raise argparse.ArgumentTypeError(
            f"{text!r}: a shape is sentences x targets x nodes, as in 64x21x84: 1 or more, 2 or more, and a "
            "node for each target"
        )
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
    """match [B, M, L], links [B, L, L], node lengths and target lengths [B]."""
    generator = torch.Generator().manual_seed(1)
    match = -5 * torch.rand(B, M, L, generator=generator)
    later = torch.ones(L, L, dtype=torch.bool).triu(1)
    links = torch.randn(B, L, L, generator=generator).masked_fill(~later, -math.inf).log_softmax(-1)
    links[:, -1] = -math.inf  # the last node has no successor
    return match, links, torch.full((B,), L), torch.full((B,), M)


def make_passes(implementation: Callable, inputs: tuple[Tensor, ...]) -> dict[str, Callable[[], object]]:
    match, links, *lengths = inputs
    leaves = [tensor.detach().requires_grad_() for tensor in (match, links)]

    def forward():
        with torch.no_grad():
            return implementation(*leaves, *lengths)

    def both():
        log_prob = implementation(*leaves, *lengths)
        return torch.autograd.grad(log_prob, leaves, torch.ones_like(log_prob))

    return {"forward": forward, "both": both}


def seconds_of(function: Callable[[], object], device: str) -> float:
    """Of a call, the mean over some on CUDA."""
    timer = Timer("f()", globals={"f": function}, num_threads=torch.get_num_threads())
    return timer.timeit(20 if device == "cuda" else 1).mean


def as_graph(function: Callable[[], object]) -> Callable[[], object]:
    """The function's kernels as one CUDA graph, to be launched at once."""
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


def measure(args: argparse.Namespace, shape: tuple[int, int, int], dtype: str) -> list[list[str]]:
    """Rows of the table for a shape and a dtype, one an implementation; a short one if it failed."""
    match, links, *lengths = (tensor.to(args.device) for tensor in random_graphs(*shape))
    inputs = match.to(DTYPES[dtype]), links.to(DTYPES[dtype]), *lengths
    peak_of = peak_of_cpu_allocations if args.device == "cpu" else peak_of_cuda_allocations
    size = " x ".join(map(str, shape))
    rows, passes, peaks = [], {}, {}
    for name, implementation in IMPLEMENTATIONS.items():
        try:
            own = make_passes(implementation, inputs)
            peaks[name] = peak_of(own["both"])
            if args.device == "cuda":
                own |= {f"device {which}": as_graph(run) for which, run in own.items()}
        except RuntimeError as error:  # too little memory for the reference, say: the other is measured
            rows.append([size, dtype, name, f"failed: {str(error).splitlines()[0]}"])
        else:
            passes[name] = own
    samples = defaultdict(list)
    for _ in range(args.repeats):
        for name, own in passes.items():
            for which, run in own.items():
                each = GRAPH_CALLS if which.startswith("device") else 1
                samples[name, which].append(seconds_of(run, args.device) / each)
    medians = {key: statistics.median(values) for key, values in samples.items()}
    for name, own in passes.items():
        both = [which for which in own if which.endswith("both")]
        faster = [medians.get(("reference", w), math.nan) / medians[name, w] for w in both]
        times = [milliseconds(medians[name, which]) for which in own]
        rows.append([size, dtype, name, *times, *(f"{x:.1f}" for x in faster), f"{peaks[name] / 2**20:,.1f}"])
    return rows


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4f}" if seconds < 1e-3 else f"{seconds * 1e3:.2f}"


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    print_head("bench_dag_loss.py", argv, args.device, f"medians of {args.repeats}, in ms")
    kinds = ["", "device "] if args.device == "cuda" else [""]
    columns = ["B x M x L", "dtype", "implementation", "forward", "fwd+bwd"]
    columns += ["device forward", "device fwd+bwd"][: 2 * len(kinds) - 2]
    columns += [*(f"{kind}times faster" for kind in kinds), "peak MiB"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    status = 0
    for shape in args.shapes:
        for dtype in args.dtypes:
            for row in measure(args, shape, dtype):
                print(f"| {' | '.join(row)} |", flush=True)
                status |= len(row) < len(columns)
    return status


if __name__ == "__main__":
    sys.exit(main())
