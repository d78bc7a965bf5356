"""Time, operators and memory of a training step of ExLM over those of fairseq's own RoBERTa.

The models are in one process and take turns, on the same batch of random words, masked by fairseq's
MaskTokensDataset; medians over the repeats. A step is forward and backward pass. Operators are PyTorch's
(ATen), views apart, and "GB" the size of all their inputs and outputs. Peak memory is that of all tensors a
step needs: parameters and what the step allocates at most at a time.

    cd scripts/benchmarks
    python bench_step.py                                        # exlm_base over roberta_base, 8 x 128 tokens
    python bench_step.py --expand-from-layer 0 6 9 --state-graph dag lattice
    python bench_step.py --device cuda --dtype bfloat16 --batch-size 64
"""

import argparse
import itertools
import logging
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial

import torch
from step_costs import OperatorCounter, peak_of_allocations, print_head
from torch.utils.benchmark import Timer


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], formatter_class=argparse.ArgumentDefaultsHelpFormatter
    )
    add = parser.add_argument
    add("--arch", default="exlm_base", help="the ExLM")
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
    add("--compile", action="store_true", help="the ExLM's layers with torch.compile")
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
    """A batch of random words between <s> and </s>, masked as the masked_lm task masks them."""
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


def step(model, criterion, batch: dict) -> float:
    """A forward and backward pass; returns the loss."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(7)
    loss, sample_size, _ = criterion(model, batch)
    (loss / sample_size).backward()
    return float(loss.detach() / sample_size)


def make_steps(args: argparse.Namespace) -> dict[str, tuple[torch.nn.Module, Callable[[], float]]]:
    """The models that are measured and a step of each, by name; the baseline first."""
    from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss

    import fs_plugins  # noqa: F401  (registers models and criteria)
    from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM

    dictionary = make_dictionary(args.vocabulary)
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    batch = make_batch(args, dictionary)
    masked_lm = MaskedLmLoss(MaskedLmConfig(tpu=False), task)
    baseline = build_model(args, args.baseline, task, max_positions=max(512, args.tokens))
    steps = {args.baseline: (baseline, partial(step, baseline, masked_lm, batch))}
    settings = {"max_positions": max(2048, args.k * (args.tokens + 1)), "ext_state_num": args.k}
    for graph, layer in itertools.product(args.state_graph, args.expand_from_layer):
        name = args.arch if graph == "dag" else f"{args.arch}, {graph}"
        own = {"expand_from_layer": layer, "state_graph": graph, "compile": args.compile}
        own["state_embedding_scale"] = 1.0 if graph == "lattice" else 0.0
        exlm = build_model(args, args.arch, task, **settings, **own)
        name = f"{name}, J = {layer}" if layer else name
        steps[name] = exlm, partial(step, exlm, NatDagLossMLM(task), batch)
    return steps


def peak_bytes(model: torch.nn.Module, run: Callable, device: str) -> int:
    """Parameters and the most that a step has allocated at a time, its gradients among it."""
    model.zero_grad(set_to_none=True)
    allocated = peak_of_allocations(run, device)
    model.zero_grad(set_to_none=True)
    return allocated + sum(t.numel() * t.element_size() for t in model.parameters())


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    steps, seconds = make_steps(args), defaultdict(list)
    losses = {name: run() for name, (_, run) in steps.items()}  # and a warm-up
    for i in range(args.repeats):
        for name, (_, run) in steps.items():
            timer = Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads())
            seconds[name].append(timer.timeit(1).mean)
        print(f"\r{i + 1}/{args.repeats} repeats", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    columns = ["model", "loss (nats)", "s/step (median)", "times", "operators", "times", "GB", "times"]
    columns += ["peak MiB", "times"]
    size = f"{args.batch_size} x {args.tokens} tokens, {args.mask_prob:.0%} masked"
    print_head("bench_step.py", argv, args.device, f"{size}, k = {args.k}, {args.dtype}")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    first = None
    for name, (model, run) in steps.items():
        with OperatorCounter() as counter:
            run()
        figures = [
            (statistics.median(seconds[name]), "{:.4f}"),
            (sum(counter.calls.values()), "{:,}"),
            (counter.nbytes / 1e9, "{:.1f}"),
            (peak_bytes(model, run, args.device) / 2**20, "{:,.0f}"),
        ]
        first = first or figures
        row = [name, f"{losses[name]:.5f}"]
        for (value, form), (base, _) in zip(figures, first, strict=True):
            row += [form.format(value), f"{value / base:.2f}"]
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
