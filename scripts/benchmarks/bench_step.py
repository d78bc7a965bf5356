"""Time, operators and memory of a training step of ExLM and our MLM over those of fairseq's own RoBERTa.

The models take turns in one process, on the same batch of random words, masked by fairseq's
MaskTokensDataset; medians over the repeats. A step is forward and backward pass. Operators are PyTorch's
(ATen), views apart, and "GB" the size of all their inputs and outputs; on a GPU, "kernels" are those that the
profiler sees, "GPU ms" the sum of their times, and "ms without waits" the time of each of ten steps, as a
training with --update-freq takes them. TFLOP/s are those
of fs_plugins/models/cost.py, in which prices are told, over the time of a step. Peak memory is that of all
tensors a step needs: parameters and what the step allocates at most at a time.

    cd scripts/benchmarks
    python bench_step.py                                        # exlm_base over roberta_base, 8 x 128 tokens
    python bench_step.py --device cuda --dtype bfloat16 --batch-size 64
"""

import argparse
import logging
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
from fairseq.data import Dictionary, MaskTokensDataset
from fairseq.dataclass.configs import FairseqConfig
from fairseq.models import build_model
from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY, FP16Optimizer, build_optimizer
from omegaconf import OmegaConf, open_dict
from step_costs import OperatorCounter, peak_of_allocations, print_head
from torch.profiler import ProfilerActivity, profile
from torch.utils.benchmark import Timer

import fs_plugins
from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from fs_plugins.models.cost import cost_of

fs_plugins.register()


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
    add("--vocabulary", type=int, default=50265, help="dictionary entries")
    add("--repeats", type=int, default=7)
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--dtype", choices=("float32", "bfloat16"), default="float32")
    add(
        "--optimizers",
        nargs="+",
        default=[],
        choices=("adam", "fused_adamw"),
        help="time an update by these, too",
    )
    add("--peak", type=float, default=989, help="of the GPU, in TFLOP/s: an H100's")
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device (torch.cuda.is_available() is False)")
    return args


def make_dictionary(size: int):
    dictionary = Dictionary()
    for i in range(size - len(dictionary) - 1):
        dictionary.add_symbol(f"w{i}")
    dictionary.add_symbol("<mask>")
    return dictionary


def make_batch(args: argparse.Namespace, dictionary) -> dict:
    """Returns a batch of random words between <s> and </s>, masked as the masked_lm task masks them."""
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


def make_model(args: argparse.Namespace, arch: str, task, **overrides):
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


def variants(args: argparse.Namespace) -> Iterator[tuple[str, str, dict]]:
    """Yields the name, architecture and settings of each of our models."""
    for arch in args.arch:
        if not arch.startswith(("exlm", "p_roberta_ext")):
            yield arch, arch, {"max_positions": max(512, args.tokens)}
            continue
        most = max(2048, args.k * (args.tokens + 1))
        yield arch, arch, {"max_positions": most, "ext_state_num": args.k}


def make_steps(args: argparse.Namespace) -> dict[str, Step]:
    """Returns the steps that are measured, by name; the baseline's first."""
    dictionary = make_dictionary(args.vocabulary)
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    batch = make_batch(args, dictionary)
    masked_lm, dag = MaskedLmLoss(MaskedLmConfig(tpu=False), task), NatDagLossMLM(task)
    lengths = np.full(args.batch_size, args.tokens)

    def make(arch, criterion, own, priced_as=None):
        words = [f"--{name.replace('_', '-')}={value}" for name, value in own.items()]
        words = ["--arch", priced_as or arch, *words]
        flops = cost_of(words, args.vocabulary, lengths, args.mask_prob).flops * args.batch_size
        model = make_model(args, arch, task, **own)
        return Step(model, partial(step, model, criterion, batch), flops)

    of_ours = {"roberta_base": "p_roberta_base", "roberta_large": "p_roberta_large"}.get(args.baseline)
    positions = {"max_positions": max(512, args.tokens)}
    steps = {args.baseline: make(args.baseline, masked_lm, positions, priced_as=of_ours)}
    for name, arch, own in variants(args):
        steps[name] = make(arch, dag if "ext_state_num" in own else masked_lm, own)
    return steps


def kernels(run: Callable) -> tuple[float, int]:
    """Returns the time of a step's kernels on the GPU in ms, and their number."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as profiler:
        run()
        torch.cuda.synchronize()
    events = [event for event in profiler.key_averages() if event.self_device_time_total > 0]
    return sum(e.self_device_time_total for e in events) / 1e3, sum(e.count for e in events)


def peak_bytes(step: Step, device: str) -> int:
    """Returns parameters and the most that a step has allocated at a time, its gradients among it."""
    parameters = sum(t.numel() * t.element_size() for t in step.model.parameters())
    step.model.zero_grad(set_to_none=True)
    allocated = peak_of_allocations(step.run, device)
    step.model.zero_grad(set_to_none=True)
    return allocated + parameters


def seconds_of(run: Callable, calls: int = 1) -> float:
    """Returns the seconds of a call, of several without a wait for the GPU between them."""
    timer = Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
    return timer.timeit(calls).mean  # waits at the end


def optimizer_step(model: torch.nn.Module, name: str, dtype: str) -> Callable[[], None]:
    """Returns what fairseq does after a backward pass of the model, by its optimizer of that name."""
    cfg = OmegaConf.structured(FairseqConfig)
    with open_dict(cfg):
        cfg.optimizer = OmegaConf.structured(OPTIMIZER_DATACLASS_REGISTRY[name])
        cfg.optimizer._name, cfg.optimizer.lr, cfg.common.bf16 = name, [0.0], True
    build, of = (
        (FP16Optimizer.build_optimizer, cfg) if dtype != "float32" else (build_optimizer, cfg.optimizer)
    )
    optimizer = build(of, [*model.parameters()])

    def run():
        optimizer._needs_sync = True  # state after a backward pass
        optimizer.multiply_grads(0.5)
        optimizer.clip_grad_norm(0.0)
        optimizer.step()

    return run


def measure(steps: dict[str, Step], args: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    """Yields cells of the table, by the step's name; the steps take turns."""
    peaks = {name: peak_bytes(one, args.device) / 2**20 for name, one in steps.items()}
    losses, seconds = {name: float(one.run()) for name, one in steps.items()}, defaultdict(list)
    for i in range(args.repeats):
        for name, one in steps.items():
            seconds[name].append(seconds_of(one.run))
        print(f"\r{i + 1}/{args.repeats} repeats", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    for name, one in steps.items():
        with OperatorCounter() as counter:
            one.run()
        counted = sum(counter.calls.values()), counter.nbytes / 1e9
        median, extra = statistics.median(seconds[name]), []
        if args.device == "cuda":
            ms, count = kernels(one.run)
            extra = [f"{1e3 * seconds_of(one.run, 10):.1f}", f"{ms:.1f}", f"{count:,}"]
        for optimizer in args.optimizers:
            update = optimizer_step(one.model, optimizer, args.dtype)
            extra.append(f"{1e3 * min(seconds_of(update) for _ in range(4)):.1f}")  # the first allocates
        yield name, (losses[name], [median, *counted, peaks[name]], one.flops / median / 1e12, extra)


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    logging.basicConfig(level=logging.WARNING, force=True)  # importing fairseq has set DEBUG
    columns = ["model", "loss (nats)", "s/step (median)", "times", "operators", "times", "GB", "times"]
    columns += ["peak MiB", "times", "TFLOP/s", f"of {args.peak:g}"]
    columns += ["ms without waits", "GPU ms", "kernels"] if args.device == "cuda" else []
    columns += [f"{name}, ms" for name in args.optimizers]
    size = f"{args.batch_size} x {args.tokens} tokens, {args.mask_prob:.0%} masked"
    print_head("bench_step.py", argv, args.device, f"{size}, k = {args.k}, {args.dtype}")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    steps, first = make_steps(args), None
    for name, (loss, figures, speed, extra) in measure(steps, args):
        first = first or figures
        row = [name, f"{loss:.5f}"]
        forms = ("{:.4f}", "{:,}", "{:.1f}", "{:,.0f}")
        for value, base, form in zip(figures, first, forms, strict=True):
            row += [form.format(value), f"{value / base:.2f}"]
        row += [f"{speed:.2f}", f"{speed / args.peak:.0%}", *extra]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
