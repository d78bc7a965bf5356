"""Time and memory of the DAG op over those of its plain PyTorch reference, with the floor of the machine.

Implementations take turns in one process, on the same random graphs; medians over the repeats. On CUDA,
the times are those between events around many calls from Python, and "device" means those of replaying the
calls as a CUDA graph, which leaves out what Python and the launches cost. The floor is the larger of two
times: the bytes that must pass through device memory (each input read once a pass, each output written once)
over the bandwidth, and the FLOPs of the products over the arithmetic rate. Inputs stay in the GPU's L2
cache from call to call where they fit into it (50 MB on an H100), so times may lie below the floor by bytes.

    cd scripts/benchmarks
    python bench_dag_loss.py                             # CPU
    python bench_dag_loss.py --device cuda               # 64 x 21 x 84 and 64 x 77 x 316
    python bench_dag_loss.py --device cuda --shapes 8x40x160 --dtypes float32 float64 --repeats 50
    python bench_dag_loss.py --device cuda --graphs graphs.bin      # by dump_graphs.py, and random scores
                                                                    # on their edges
"""

import argparse
import math
import platform
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

import numpy as np
import torch
from measures import peak_of_cpu_allocations, peak_of_cuda_allocations
from torch import Tensor

from fs_plugins.custom_ops import library
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.custom_ops.dag_reference import dag_loss_reference

IMPLEMENTATIONS = {"compiled": dag_loss, "reference": dag_loss_reference}
DTYPES = {name: getattr(torch, name) for name in ("float32", "float64", "float16", "bfloat16")}
SHAPES = {"cpu": ["16x21x84", "2x77x316"], "cuda": ["64x21x84", "64x77x316"]}
SENTENCES = {"cpu": 16, "cuda": 64}  # of a file's graphs, which are repeated
# Data sheets: GB/s of device memory, TFLOP/s in float32 (outside the matrix units) and in float64. The first
# name that is part of the GPU's counts.
RATES = {
    "GH200": (4000, 67, 34),
    "H200": (4800, 67, 34),
    "H100 PCIe": (2039, 51, 26),
    "H100": (3350, 67, 34),
    "A100-SXM4-80GB": (2039, 19.5, 9.7),
    "A100 80GB PCIe": (1935, 19.5, 9.7),
    "A100": (1555, 19.5, 9.7),
}
GRAPH_CALLS = 10  # calls in a CUDA graph, so that its own launch (some us) is no large part of each
SAMPLE_SECONDS = 0.005  # a sample on CUDA is as many calls as take this long


def parse_shape(text: str) -> tuple[int, int, int]:
    match = re.fullmatch(r"(\d+)x(\d+)x(\d+)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r}: a shape is sentences x targets x nodes, as in 64x21x84")
    B, M, L = (int(number) for number in match.groups())
    if B < 1 or not 2 <= M <= L:
        raise argparse.ArgumentTypeError(
            f"{text!r}: needs a sentence, two targets, and a node for each target"
        )
    return B, M, L


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu", help="default: %(default)s")
    add(
        "--shapes",
        nargs="+",
        type=parse_shape,
        default=[],
        help="sentences x targets x nodes (default: 16x21x84 2x77x316; cuda: 64x21x84 64x77x316)",
    )
    graphs = "files of a trained model's graphs; each is measured with random scores, too"
    add("--graphs", nargs="+", type=Path, default=[], help=graphs)
    add("--dtypes", nargs="+", choices=DTYPES, default=["float32"], help="default: float32")
    add(
        "--implementations",
        nargs="+",
        choices=IMPLEMENTATIONS,
        default=list(IMPLEMENTATIONS),
        help="default: all",
    )
    add("--repeats", type=int, default=20, help="default: %(default)s")
    by_name = "for the floor (default: by the GPU's name)"
    add("--bandwidth", type=float, help=f"GB/s of the device's memory, {by_name}")
    add("--tflops", type=float, help=f"the device's TFLOP/s in the dtype, {by_name}")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device (torch.cuda.is_available() is False)")
    if "compiled" in args.implementations and library.load(args.device) is None:
        parser.error(
            f"there is no compiled op for {args.device}: build it (pip install -e .), or measure the plain "
            "PyTorch path alone with --implementations reference"
        )
    if args.repeats < 1:
        parser.error(f"--repeats must be at least 1, got {args.repeats}")
    if args.graphs and args.shapes:
        parser.error("--graphs and --shapes: give one of them; the files have the shapes of their graphs")
    if missing := [path for path in args.graphs if not path.is_file()]:
        parser.error(f"--graphs {missing[0]}: the file does not exist")
    if not args.graphs and not args.shapes:
        args.shapes = [parse_shape(text) for text in SHAPES[args.device]]
    return args


# ---- What must be done at least.


def floor_counts(B: int, M: int, L: int, size: int) -> dict[str, tuple[int, int]]:
    """(bytes, FLOPs) of the passes over full sentences, for entries of `size` bytes."""
    width = L - M + 1  # nodes that paths can pass at one target
    first_and_last = 2 * width if M > 2 else 1
    pairs = B * (max(0, M - 3) * width * (width + 1) // 2 + first_and_last)  # of nodes, over all targets
    trellis, edges, square = B * M * L * size, B * L * (L - 1) // 2 * size, B * L * L * size
    forward = trellis + edges + 2 * trellis  # match, links; alpha, which has two numbers an entry
    backward = trellis + edges + 2 * trellis + trellis + square  # match, links, alpha; grad_match, grad_links
    return {
        "forward": (forward, 2 * pairs),
        "backward": (backward, 4 * pairs),  # posteriors of nodes, and of edges
        "both": (forward + backward, 6 * pairs),
    }


def rates(args: argparse.Namespace, dtype: str) -> tuple[float | None, float | None]:
    """(bytes, FLOPs) that the device does in a second, as far as they are known."""
    bandwidth = tflops = None
    if args.device == "cuda":
        name = torch.cuda.get_device_name()
        for known, (gigabytes, single, double) in RATES.items():
            if known in name:
                bandwidth, tflops = gigabytes, double if dtype == "float64" else single
                break
    bandwidth, tflops = args.bandwidth or bandwidth, args.tflops or tflops
    return bandwidth and bandwidth * 1e9, tflops and tflops * 1e12


# ---- Measuring.


def random_graphs(B: int, M: int, L: int) -> tuple[Tensor, ...]:
    """match [B, M, L], links [B, L, L], node lengths and target lengths [B]."""
    generator = torch.Generator().manual_seed(1)
    match = -5 * torch.rand(B, M, L, generator=generator)
    later = torch.ones(L, L, dtype=torch.bool).triu(1)
    links = torch.randn(B, L, L, generator=generator).masked_fill(~later, -math.inf).log_softmax(-1)
    links[:, -1] = -math.inf  # the last node has no successor
    return match, links, torch.full((B,), L), torch.full((B,), M)


def graphs_of_file(path: Path, sentences: int) -> tuple[Tensor, ...]:
    """The same, of a file by scripts/benchmarks/dump_graphs.py, repeated to so many sentences."""
    with path.open("rb") as file:
        B, M, L = (int(number) for number in np.fromfile(file, np.int64, 3))
        lengths = [np.fromfile(file, np.int64, B) for _ in range(2)]
        scores = [np.fromfile(file, np.float32, B * size * L).reshape(B, size, L) for size in (M, L)]
    return tuple(torch.from_numpy(part)[torch.arange(sentences) % B] for part in (*scores, *lengths))


def with_random_scores(graphs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Graphs of the same edges and lengths, whose scores are those of :func:`random_graphs`."""
    _, links, *lengths = graphs
    match, drawn, *_ = random_graphs(*graphs[0].shape)
    drawn = drawn.masked_fill(links == -math.inf, -math.inf)
    total = drawn.logsumexp(-1, keepdim=True)
    return match, drawn - total.where(total > -math.inf, torch.zeros(())), *lengths


def make_inputs(graphs: tuple[Tensor, ...], dtype: torch.dtype, device: str) -> tuple[Tensor, ...]:
    match, links, *lengths = graphs
    return *(t.to(device, dtype).requires_grad_() for t in (match, links)), *(t.to(device) for t in lengths)


def make_passes(implementation: Callable, inputs: tuple[Tensor, ...]) -> dict[str, Callable[[], object]]:
    leaves = inputs[:2]
    # Leaves of its own for `both`: those of the graph that `backward` keeps are bound to the default stream,
    # and a backward pass that ends in them cannot be captured in a CUDA graph.
    own = [leaf.detach().requires_grad_() for leaf in leaves]
    log_prob = implementation(*inputs)
    weights = torch.ones_like(log_prob)

    def forward():
        with torch.no_grad():
            return implementation(*inputs)

    def backward():
        return torch.autograd.grad(log_prob, leaves, weights, retain_graph=True)

    def both():
        return torch.autograd.grad(implementation(*own, *inputs[2:]), own, weights)

    return {"forward": forward, "backward": backward, "both": both}


class Timer:
    """Median seconds of a call; on CUDA, of many between two events."""

    def __init__(self, function: Callable[[], object], device: str, each: int = 1):
        self.function, self.device, self.each = function, device, each  # each: what a call counts for
        self.samples: list[float] = []
        self.calls = 1
        self.sample()  # warm-up
        if device == "cuda":
            seconds = self.sample() * self.each
            self.calls = max(1, min(1000, math.ceil(SAMPLE_SECONDS / max(seconds, 1e-6))))
        self.samples.clear()

    def sample(self) -> float:
        if self.device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda.synchronize()
            start.record()
            for _ in range(self.calls):
                self.function()
            end.record()
            torch.cuda.synchronize()
            seconds = start.elapsed_time(end) / 1e3 / (self.calls * self.each)
        else:
            begin = time.perf_counter()
            self.function()
            seconds = time.perf_counter() - begin
        self.samples.append(seconds)
        return seconds

    def median(self) -> float:
        return statistics.median(self.samples)


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


def start(implementation: Callable, inputs: tuple[Tensor, ...], device: str) -> tuple[dict[str, Timer], int]:
    """The warm timers of an implementation's passes, and the peak memory of both."""
    passes = make_passes(implementation, inputs)
    timers = {which: Timer(run, device) for which, run in passes.items()}
    peak = (peak_of_cpu_allocations if device == "cpu" else peak_of_cuda_allocations)(passes["both"])
    if device == "cuda":
        for which in ("forward", "both"):
            timers[f"device {which}"] = Timer(as_graph(passes[which]), "cuda", GRAPH_CALLS)
    return timers, peak


def measure(args: argparse.Namespace, graphs: tuple[Tensor, ...], of: str, dtype: str) -> list[list[str]]:
    """Rows of the table for some graphs and a dtype, one an implementation; a short one if it failed."""
    shape = graphs[0].shape
    inputs = make_inputs(graphs, DTYPES[dtype], args.device)
    timers, peaks, failures = {}, {}, {}
    for name in args.implementations:
        try:
            own, peaks[name] = start(IMPLEMENTATIONS[name], inputs, args.device)
        except RuntimeError as error:  # too little memory for the reference, say: the others are measured
            failures[name] = str(error).splitlines()[0]
        else:
            timers[name] = own
    for _ in range(args.repeats):
        for own in timers.values():
            for timer in own.values():
                timer.sample()

    counts = floor_counts(*shape, size=8 if dtype == "float64" else 4)
    bytes_rate, flops_rate = rates(args, dtype)
    by_bytes = f"{milliseconds(counts['both'][0] / bytes_rate)}" if bytes_rate else "?"
    by_flops = f"{milliseconds(counts['both'][1] / flops_rate)}" if flops_rate else "?"
    floor = f"{counts['both'][0] / 1e6:.1f} MB: {by_bytes}; {counts['both'][1] / 1e6:.1f} MFLOP: {by_flops}"
    size = " x ".join(map(str, shape)) + of
    rows = [[size, dtype, name, f"failed: {error}"] for name, error in failures.items()]
    for name, own in timers.items():
        seconds = {which: timer.median() for which, timer in own.items()}
        reference = timers.get("reference")
        ratio = f"{reference['both'].median() / seconds['both']:.1f}" if reference else "?"
        device = []
        if args.device == "cuda":
            device += [milliseconds(seconds[f"device {which}"]) for which in ("forward", "both")]
            if reference:
                device.append(f"{reference['device both'].median() / seconds['device both']:.1f}")
            elif "reference" in args.implementations:
                device.append("?")
        called = [milliseconds(seconds[which]) for which in ("forward", "backward", "both")]
        peak = f"{peaks[name] / 2**20:,.1f}"
        rows.append([size, dtype, name, *called, ratio, *device, peak, floor])
    return rows


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.4f}" if seconds < 1e-3 else f"{seconds * 1e3:.2f}"


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    if args.device == "cuda":
        machine = torch.cuda.get_device_name()
    else:
        machine = f"{platform.processor() or platform.machine()}, {torch.get_num_threads()} threads"
    print(f"{date.today()}, {machine}, torch {torch.__version__}")
    words = sys.argv[1:] if argv is None else argv
    print(f"python scripts/benchmarks/bench_dag_loss.py {shlex.join(words)}".rstrip())
    print(f"medians of {args.repeats}, in ms\n")
    columns = ["B x M x L", "dtype", "implementation", "forward", "backward", "fwd+bwd", "times faster"]
    if args.device == "cuda":
        columns += ["device: forward", "device: fwd+bwd"]
        columns += ["device: times faster"] if "reference" in args.implementations else []
    columns += ["peak MiB", "floor of fwd+bwd"]
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    status = 0
    inputs = [(random_graphs(*shape), "") for shape in args.shapes]
    for path in args.graphs:
        graphs = graphs_of_file(path, SENTENCES[args.device])
        inputs += [(graphs, f", {path.stem}"), (with_random_scores(graphs), f", {path.stem}, random scores")]
    for graphs, of in inputs:
        for dtype in args.dtypes:
            for row in measure(args, graphs, of, dtype):
                print(f"| {' | '.join(row)} |", flush=True)
                status |= len(row) < len(columns)
    return status


if __name__ == "__main__":
    sys.exit(main())
