"""Time, operators and memory of a training step of ExLM and our MLM over those of fairseq's own RoBERTa.

The models of a mode take turns in one process, on the same batch of random words, masked by fairseq's
MaskTokensDataset; medians over the repeats. Rows are printed before the next mode is compiled. A step is
forward and backward pass. Operators are PyTorch's (ATen), views apart, and "GB" the size of all their inputs
and outputs. TFLOP/s are those of fs_plugins/models/cost.py, in which prices are told, over the time of a
step. Peak memory is that of all tensors a step needs: parameters and what it allocates at most at a time.

    cd scripts/benchmarks
    python bench_step.py                                        # exlm_base over roberta_base, 8 x 128 tokens
    python bench_step.py --expand-from-layer 0 6 9 --state-graph dag lattice
    python bench_step.py --device cuda --dtype bfloat16 --batch-size 64 --modes eager compile cuda-graph
"""

import argparse
import itertools
import logging
import statistics
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from step_costs import OperatorCounter, peak_of_allocations, print_head
from torch.utils.benchmark import Timer

MODES = ("eager", "compile", "cuda-graph")


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--arch", nargs="+", default=["exlm_base"], help="ExLMs, or our MLM: p_roberta_base")
    add("--baseline", default="roberta_base", help="what it is compared with, trained by masked_lm")
    add("--batch-size", type=int, default=8, help="sentences")
    add("--tokens", type=int, default=128, help="tokens of each sentence, with <s> and </s>")
    add("--mask-prob", type=float, default=0.15)
    add("--k", type=int, default=4, help="states for each masked token")
    rows = "several for a row each, interleaved"
    add("--expand-from-layer", type=int, nargs="+", default=[0], metavar="J", help=f"the ExLM's; {rows}")
    graphs = f"the ExLM's, lattice with state embeddings as in configs/model; {rows}"
    add("--state-graph", nargs="+", default=["dag"], choices=("dag", "lattice"), help=graphs)
    add("--vocabulary", type=int, default=50265, help="dictionary entries")
    add("--repeats", type=int, default=7)
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--dtype", choices=("float32", "bfloat16"), default="float32")
    add("--modes", nargs="+", default=MODES[:1], choices=MODES, help=f"of ours; {rows}")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device (torch.cuda.is_available() is False)")
    return args


def make_dictionary(size: int):
    from fairseq.data import Dictionary

    dictionary = Dictionary()
    for i in range(size - len(dictionary) - 1):
        dictionary.add_symbol(f"w{i}")
    dictionary.add_symbol("<mask>")
    return dictionary


def make_batch(args: argparse.Namespace, dictionary) -> dict:
    """Returns a batch of random words between <s> and </s>, masked as the masked_lm task masks them."""
    from fairseq.data import MaskTokensDataset

    generator = torch.Generator().manual_seed(1)
    shape = (args.batch_size, args.tokens)
    words = torch.randint(dictionary.nspecial, len(dictionary) - 1, shape, generator=generator)
    words[:, 0], words[:, -1] = dictionary.bos(), dictionary.eos()
    special = {"pad_idx": dictionary.pad(), "mask_idx": dictionary.index("<mask>")}
    masked = MaskTokensDataset.apply_mask(words, dictionary, **special, mask_prob=args.mask_prob)
    tokens, target = (
        torch.stack([dataset[i] for i in range(args.batch_size)]).to(args.device) for dataset in masked
    )
    lengths = torch.full((args.batch_size,), args.tokens, device=args.device)
    return {
        "net_input": {"src_tokens": tokens, "src_lengths": lengths},
        "target": target,
        "ntokens": tokens.numel(),
        "nsentences": args.batch_size,
    }


def build_model(args: argparse.Namespace, arch: str, task, **overrides):
    from fairseq.models import build_model

    settings = argparse.Namespace(arch=arch, **overrides)
    torch.manual_seed(1)
    return build_model(settings, task).to(args.device, getattr(torch, args.dtype)).train()


def step(model, criterion, batch: dict) -> torch.Tensor:
    """Runs a forward and backward pass; returns the loss, []."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    loss, sample_size, _ = criterion(model, batch)
    (loss / sample_size).backward()
    return loss.detach() / sample_size


@dataclass(frozen=True)
class Step:
    """What is measured."""

    model: torch.nn.Module
    run: Callable[[], torch.Tensor]  # a step, returning the loss
    flops: float  # FLOPs of a step
    mode: str = MODES[0]


def make_steps(args: argparse.Namespace) -> dict[str, Step]:
    """Returns the steps that are measured, by name; the baseline's first."""
    from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss

    import fs_plugins  # noqa: F401  (registers models and criteria)
    from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
    from fs_plugins.models.cost import cost_of

    dictionary = make_dictionary(args.vocabulary)
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    batch = make_batch(args, dictionary)
    masked_lm, dag = MaskedLmLoss(MaskedLmConfig(tpu=False), task), NatDagLossMLM(task)
    lengths = np.full(args.batch_size, args.tokens)

    def flops(arch, **flags):
        words = ["--arch", arch, *(f"--{name.replace('_', '-')}={value}" for name, value in flags.items())]
        return cost_of(words, args.vocabulary, lengths, args.mask_prob).flops * args.batch_size

    baseline = build_model(args, args.baseline, task, max_positions=max(512, args.tokens))
    of_ours = {"roberta_base": "p_roberta_base", "roberta_large": "p_roberta_large"}.get(args.baseline)
    run = partial(step, baseline, masked_lm, batch)
    steps = {args.baseline: Step(baseline, run, flops(of_ours or args.baseline))}
    for arch, mode in itertools.product(args.arch, args.modes):
        mine = {"compile": mode == "compile", "cuda_graph": mode == "cuda-graph"}
        end = "" if mode == MODES[0] else f", {mode}"
        if not arch.startswith(("exlm", "p_roberta_ext")):
            model = build_model(args, arch, task, max_positions=max(512, args.tokens), **mine)
            run = partial(step, model, masked_lm, batch)
            steps[f"{arch}{end}"] = Step(model, run, flops(arch), mode)
            continue
        most = max(2048, args.k * (args.tokens + 1))
        for graph, layer in itertools.product(args.state_graph, args.expand_from_layer):
            own = {"max_positions": most, "ext_state_num": args.k, "expand_from_layer": layer}
            own |= {"state_graph": graph, "state_embedding_scale": 1.0 if graph == "lattice" else 0.0}
            model = build_model(args, arch, task, **own, **mine)
            name = arch if graph == "dag" else f"{arch}, {graph}"
            name = f"{name}, J = {layer}" if layer else name
            steps[f"{name}{end}"] = Step(model, partial(step, model, dag, batch), flops(arch, **own), mode)
    return steps


def peak_bytes(step: Step, device: str) -> int:
    """Returns parameters and the most that a step has allocated at a time, its gradients among it."""
    step.model.zero_grad(set_to_none=True)
    allocated = peak_of_allocations(step.run, device)
    step.model.zero_grad(set_to_none=True)
    return allocated + sum(t.numel() * t.element_size() for t in step.model.parameters())


def measure(steps: dict[str, Step], args: argparse.Namespace) -> Iterator[tuple[str, float, list]]:
    """Yields the name of each step, its loss and its figures; the steps take turns. Inside compiled code
    there are no operators to count, and CUDA graphs allocate while they are recorded, not in a step."""
    losses, seconds = {}, {name: [] for name in steps}
    for name, one in steps.items():  # by CUDA graphs: warmed up, recorded, replayed
        losses[name] = [float(one.run()) for _ in range(3 if one.mode == "cuda-graph" else 1)][-1]
    for i in range(args.repeats):
        for name, one in steps.items():
            timer = Timer("run()", globals={"run": one.run}, num_threads=torch.get_num_threads())
            seconds[name].append(timer.timeit(1).mean)  # waits at the end
        print(f"\r{i + 1}/{args.repeats} repeats", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for name, one in steps.items():
        counted, median = [None] * 3, statistics.median(seconds[name])
        if one.mode == MODES[0]:
            with OperatorCounter() as counter:
                one.run()
            operators = sum(counter.calls.values())
            counted = [operators, counter.nbytes / 1e9, peak_bytes(one, args.device) / 2**20]
        yield name, losses[name], [median, *counted, one.flops / median / 1e12]


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    logging.basicConfig(level=logging.WARNING, force=True)  # importing fairseq would set DEBUG
    columns = ["model", "loss (nats)"]
    for name in ("s/step (median)", "operators", "GB", "peak MiB", "TFLOP/s"):
        columns += [name, "times"]
    size = f"{args.batch_size} x {args.tokens} tokens, {args.mask_prob:.0%} masked"
    print_head("bench_step.py", argv, args.device, f"{size}, k = {args.k}, {args.dtype}")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    steps, first = make_steps(args), None
    for mode in MODES:  # eager first, so that its rows are there if compilers take too long
        chosen = {name: one for name, one in steps.items() if one.mode == mode}
        for name, loss, figures in measure(chosen, args):
            first, row = first or figures, [name, f"{loss:.5f}"]
            forms = ("{:.4f}", "{:,}", "{:.1f}", "{:,.0f}", "{:.2f}")
            for value, base, form in zip(figures, first, forms, strict=True):
                row += ["", ""] if value is None else [form.format(value), f"{value / base:.2f}"]
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
