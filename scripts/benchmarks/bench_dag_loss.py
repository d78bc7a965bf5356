"""Time of the compiled DAG loss beside its plain PyTorch reference.

    python scripts/benchmarks/bench_dag_loss.py                     # CPU
    python scripts/benchmarks/bench_dag_loss.py --device cuda --shapes 64x21x84 --repeats 50

The two take turns in one process, on the same random graphs, in float32; times are medians over the repeats,
in ms, of calls from Python.
"""

import argparse
import math
import platform
import sys
from datetime import date
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[1]))  # lib
import torch
from lib.command_line import argument_parser, positive, script
from torch import Tensor
from torch.utils.benchmark import Timer

from fs_plugins.custom_ops import library
from fs_plugins.custom_ops.dag_loss import dag_loss
from fs_plugins.exlm.alignment import dag_loss_reference

SHAPES = {"cpu": ["16x21x84", "2x77x316"], "cuda": ["64x21x84", "64x77x316"]}


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("--device", choices=("cpu", "cuda"), default="cpu", help="default: %(default)s")
    shapes = "sentences x targets x nodes (default: 16x21x84 2x77x316; cuda: 64x21x84 64x77x316)"
    add("--shapes", nargs="+", metavar="BxMxL", help=shapes)
    add("--repeats", type=positive, default=9, metavar="N", help="default: %(default)s")
    args = parser.parse_args(argv)
    if library.load(args.device) is None:
        parser.error(f"the op was not compiled for {args.device}: pip install -e .")
    return args


def random_graphs(B: int, M: int, L: int) -> tuple[Tensor, ...]:
    """Returns match [B, M, L], links [B, L, L], node lengths and target lengths [B]."""
    generator = torch.Generator().manual_seed(1)
    match = -5 * torch.rand(B, M, L, generator=generator)
    later = torch.ones(L, L, dtype=torch.bool).triu(1)
    links = torch.randn(B, L, L, generator=generator).masked_fill(~later, -math.inf).log_softmax(-1)
    links[:, -1] = -math.inf  # the last node has no successor
    return match, links, torch.full((B,), L), torch.full((B,), M)


def forward(loss, *inputs) -> Tensor:
    with torch.no_grad():
        return loss(*inputs)


def both(loss, match: Tensor, links: Tensor, *lengths) -> tuple[Tensor, ...]:
    leaves = match.detach().requires_grad_(), links.detach().requires_grad_()
    return torch.autograd.grad(loss(*leaves, *lengths).sum(), leaves)


@script
def main(argv: list[str] | None = None) -> None:
    args = arguments(argv)
    machine = torch.cuda.get_device_name() if args.device == "cuda" else platform.machine()
    print(f"{date.today()}, {machine}, torch {torch.__version__}, {torch.get_num_threads()} threads\n")
    print("| B x M x L | pass | compiled | reference | times faster |\n|---|---|---:|---:|---:|")
    for shape in args.shapes or SHAPES[args.device]:
        inputs = [tensor.to(args.device) for tensor in random_graphs(*map(int, shape.split("x")))]
        for run in (forward, both):
            times = {loss: [] for loss in (dag_loss, dag_loss_reference)}
            for _ in range(args.repeats):
                for loss, found in times.items():
                    call = {"run": partial(run, loss, *inputs)}
                    timer = Timer("run()", globals=call, num_threads=torch.get_num_threads())
                    found.append(1e3 * timer.timeit(10 if args.device == "cuda" else 1).mean)
            ours, plain = map(median, times.values())
            name = "forward" if run is forward else "forward and backward"
            print(f"| {shape} | {name} | {ours:.4g} | {plain:.4g} | {plain / ours:.1f} |", flush=True)
