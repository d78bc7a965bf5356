"""Time and memory of a training step (forward and backward) of ExLM over those of fairseq's own RoBERTa.

Both models are in one process and take turns, on the same random batch; medians over the repeats. Peak
memory is that of all tensors a step needs: parameters and what the step allocates at most at a time.

    python scripts/bench_step.py                         # exlm_base over roberta_base, 8 x 128 tokens
    python scripts/bench_step.py --batch-size 64 --logits plain --repeats 3
    python scripts/bench_step.py --expand-from-layer 0 6 9
    python scripts/bench_step.py --device cuda --dtype float16 --batch-size 64
"""

import argparse
import logging
import platform
import shlex
import statistics
import sys
import time
from datetime import date

import torch
from recipes.memory import peak_of_cpu_allocations
from torch import Tensor

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}


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
    help_of_layers = "the ExLM's --expand-from-layer; several for one row each, in turns"
    add("--expand-from-layer", type=int, nargs="+", default=[0], metavar="J", help=help_of_layers)
    add("--vocabulary", type=int, default=50265, help="dictionary entries")
    add("--repeats", type=int, default=7)
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--dtype", choices=DTYPES, default="float32")
    add("--checkpoint-activations", action="store_true", help="of both models")
    add(
        "--logits",
        choices=("chunked", "plain", "both"),
        default="chunked",
        help="ExLM's logits: in bounded chunks as in training, all at once, or both in turns",
    )
    args = parser.parse_args(argv)
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: there is no CUDA device (torch.cuda.is_available() is False)")
    if args.device == "cpu" and args.dtype == "float16":
        parser.error("--dtype float16 needs --device cuda")
    for name in ("batch_size", "k", "repeats"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1, got {getattr(args, name)}")
    if len(set(args.expand_from_layer)) < len(args.expand_from_layer):
        parser.error("--expand-from-layer: give different numbers of layers")
    if args.tokens < 3 or not 0 < args.mask_prob < 1 or args.vocabulary < 10:
        parser.error("--tokens must be at least 3, --mask-prob between 0 and 1, --vocabulary at least 10")
    return args


def make_batch(args: argparse.Namespace, dictionary) -> dict:
    """A batch of random words between <s> and </s>, some of them replaced by <mask>."""
    generator = torch.Generator().manual_seed(1)
    shape = (args.batch_size, args.tokens)
    tokens = torch.randint(dictionary.nspecial, len(dictionary) - 1, shape, generator=generator)
    tokens[:, 0], tokens[:, -1] = dictionary.bos(), dictionary.eos()
    target = torch.full_like(tokens, dictionary.pad())
    count = max(1, round(args.mask_prob * args.tokens))
    for row in range(args.batch_size):
        masked = torch.randperm(args.tokens - 2, generator=generator)[:count] + 1
        target[row, masked] = tokens[row, masked]
        tokens[row, masked] = dictionary.index("<mask>")
    tokens, target = tokens.to(args.device), target.to(args.device)
    lengths = torch.full((args.batch_size,), args.tokens, device=args.device)
    return {
        "net_input": {"src_tokens": tokens, "src_lengths": lengths},
        "target": target,
        "ntokens": tokens.numel(),
        "nsentences": args.batch_size,
    }


def build(args: argparse.Namespace, arch: str, task, **overrides):
    from fairseq.models import ARCH_MODEL_REGISTRY, build_model

    if arch not in ARCH_MODEL_REGISTRY:
        raise SystemExit(f"error: there is no architecture {arch!r}")
    settings = argparse.Namespace(arch=arch, checkpoint_activations=args.checkpoint_activations, **overrides)
    torch.manual_seed(1)
    return build_model(settings, task).to(args.device, DTYPES[args.dtype]).train()


class Step:
    """One model and its criterion: runs steps, measures them."""

    def __init__(self, model, criterion, batch: dict, device: str):
        self.model, self.criterion, self.batch, self.device = model, criterion, batch, device
        self.seconds: list[float] = []
        self.loss = float("nan")

    def run(self) -> None:
        self.model.zero_grad(set_to_none=True)
        torch.manual_seed(7)
        loss, sample_size, _ = self.criterion(self.model, self.batch)
        (loss / sample_size).backward()
        self.loss = float(loss.detach() / sample_size)

    def time(self) -> None:
        self._synchronise()
        start = time.perf_counter()
        self.run()
        self._synchronise()
        self.seconds.append(time.perf_counter() - start)

    def peak_bytes(self) -> int:
        """Parameters and the most that a step has allocated at a time, its gradients among it."""
        self.model.zero_grad(set_to_none=True)
        if self.device == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            self.run()
            step = torch.cuda.max_memory_allocated() - before
        else:
            step = peak_of_cpu_allocations(self.run)
        self.model.zero_grad(set_to_none=True)
        return step + sum(t.numel() * t.element_size() for t in self.model.parameters())

    def _synchronise(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def plain_match_scores(states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
    """What ``match_scores`` computes, with the logits of all nodes at once."""
    log_probs = torch.nn.functional.linear(states, weight, bias).float().log_softmax(-1)
    index = targets[:, None, :].expand(-1, states.shape[1], -1)
    return log_probs.gather(2, index).transpose(1, 2)


class PlainLogits:
    """ExLM's criterion with :func:`plain_match_scores`."""

    def __init__(self, criterion):
        self.criterion = criterion

    def __call__(self, model, batch):
        from fs_plugins.criterions import nat_dag_loss_mlm as module

        chunked, module.match_scores = module.match_scores, plain_match_scores
        try:
            return self.criterion(model, batch)
        finally:
            module.match_scores = chunked


def make_steps(args: argparse.Namespace) -> dict[str, Step]:
    """What is measured, by name; the baseline first."""
    from fairseq.criterions.masked_lm import MaskedLmConfig, MaskedLmLoss
    from fairseq.data import Dictionary

    import fs_plugins  # noqa: F401  (registers models and criteria)
    from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM

    dictionary = Dictionary()
    for i in range(args.vocabulary - len(dictionary) - 1):
        dictionary.add_symbol(f"w{i}")
    dictionary.add_symbol("<mask>")
    task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
    batch = make_batch(args, dictionary)
    masked_lm = MaskedLmLoss(MaskedLmConfig(tpu=False), task)
    baseline = build(args, args.baseline, task, max_positions=max(512, args.tokens))
    positions = max(2048, args.k * (args.tokens + 1))
    steps = {args.baseline: Step(baseline, masked_lm, batch, args.device)}
    for layer in args.expand_from_layer:
        exlm = build(
            args, args.arch, task, max_positions=positions, ext_state_num=args.k, expand_from_layer=layer
        )
        name = f"{args.arch}, J = {layer}" if layer else args.arch
        if args.logits in ("plain", "both"):
            plain = PlainLogits(NatDagLossMLM(task))
            steps[f"{name}, all logits at once"] = Step(exlm, plain, batch, args.device)
        if args.logits in ("chunked", "both"):
            steps[name] = Step(exlm, NatDagLossMLM(task), batch, args.device)
    return steps


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    logging.getLogger("fairseq").setLevel(logging.WARNING)
    steps = make_steps(args)
    for step in steps.values():
        step.run()  # warm-up
    for i in range(args.repeats):
        for step in steps.values():
            step.time()
        print(f"\r{i + 1}/{args.repeats} repeats", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    peaks = {name: step.peak_bytes() for name, step in steps.items()}
    seconds = {name: statistics.median(step.seconds) for name, step in steps.items()}

    machine = (
        torch.cuda.get_device_name() if args.device == "cuda" else platform.processor() or platform.machine()
    )
    print(
        f"{date.today()}, {machine}, torch {torch.__version__}, "
        f"{torch.get_num_threads()} threads, {args.dtype}"
    )
    print(f"python scripts/bench_step.py {shlex.join(sys.argv[1:] if argv is None else argv)}".rstrip())
    print(f"{args.batch_size} x {args.tokens} tokens, {args.mask_prob:.0%} masked, k = {args.k}\n")
    first = next(iter(steps))
    print("| model | loss (nats) | s/step (median) | times | peak MiB | times |\n|---|---|---|---|---|---|")
    for name, step in steps.items():
        print(
            f"| {name} | {step.loss:.5f} | {seconds[name]:.3f} | {seconds[name] / seconds[first]:.2f} "
            f"| {peaks[name] / 2**20:,.0f} | {peaks[name] / peaks[first]:.2f} |"
        )


if __name__ == "__main__":
    main()
