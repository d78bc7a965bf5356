"""Time and memory of training ExLM over those of fairseq's own RoBERTa.

    python scripts/benchmarks/bench_step.py                     # CPU, 8 x 128 tokens
    python scripts/benchmarks/bench_step.py --device cuda --precision bf16 --batch-size 64 \\
        --optimizer fused_adamw --update-freq 8

The models take turns in one process, on the same batch of random words; times are medians over the repeats. A
step is a forward and backward pass; an update is what fairseq's Trainer does with --update-freq steps and the
optimizer. "peak MiB" is of the parameters and all that a step allocates, gradients among it, without the
optimizer. The loss is that of evaluation, before the first update. "x" are ratios to the first model.
"""

import argparse
import platform
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))  # lib
import torch
from fairseq import options, tasks
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.trainer import Trainer
from lib.command_line import argument_parser, positive, script, share, whole
from lib.data.datasets import write_dataset
from lib.files import write_lines
from torch.utils.benchmark import Timer

import fs_plugins
from fs_plugins.data.vocabulary import SPECIAL

fs_plugins.register()


def arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    archs = ["roberta_base", "exlm_base"]
    add("--arch", nargs="+", default=archs, help="the baseline first (default: roberta_base exlm_base)")
    add("--device", choices=("cpu", "cuda"), default="cpu", help="default: cpu")
    add("--precision", choices=("fp32", "fp16", "bf16"), default="fp32", help="default: fp32")
    add("--optimizer", choices=("adam", "fused_adamw"), default="adam", help="default: adam")
    add("--update-freq", type=positive, default=1, metavar="N", help="steps of an update (default: 1)")
    add("--batch-size", type=positive, default=8, metavar="N", help="sentences of a step (default: 8)")
    add("--tokens", type=whole(3), default=128, metavar="N", help="of each sentence (default: 128)")
    add("--mask-prob", type=share, default=0.15, metavar="P", help="default: 0.15")
    add("--k", type=positive, default=4, help="states of a masked token (default: 4)")
    add("--vocabulary", type=whole(20), default=50_265, metavar="N", help="entries (default: 50265)")
    add("--repeats", type=positive, default=7, metavar="N", help="default: 7")
    return parser.parse_args(argv)


def write_corpus(folder: Path, args: argparse.Namespace) -> None:
    """Writes random words, enough for a batch."""
    words = args.vocabulary - len(SPECIAL) - 1  # the task adds <mask>
    write_lines(folder / "dict.txt", (f"w{i} 1" for i in range(words)))
    generator = torch.Generator().manual_seed(1)
    size = args.batch_size, args.tokens
    write_dataset(folder / "train", torch.randint(len(SPECIAL), words, size, generator=generator), words)


def trainer_of(arch: str, folder: Path, args: argparse.Namespace) -> tuple[Trainer, dict]:
    """Returns fairseq's trainer of a model, whose weights depend on the architecture alone, and a batch."""
    exlm = arch.startswith(("exlm", "p_roberta_ext"))
    positions = max(512, args.tokens + 1) * (args.k if exlm else 1)
    words = f"{folder} --task masked_lm --arch {arch} --seed 1 --lr 1e-4 --optimizer {args.optimizer} "
    words += f"--tokens-per-sample {args.tokens} --mask-prob {args.mask_prob} "
    words += f"--max-positions {positions} --update-freq {args.update_freq} "
    words += f"--ext-state-num {args.k} --criterion nat_dag_loss_mlm " if exlm else "--criterion masked_lm "
    words += "--cpu " * (args.device == "cpu") + f"--{args.precision}" * (args.precision != "fp32")
    cfg = convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_training_parser(), words.split())
    )
    task = tasks.setup_task(cfg.task)
    task.load_dataset("train")
    dataset = task.dataset("train")
    torch.manual_seed(1)
    trainer = Trainer(cfg, task, task.build_model(cfg.model), task.build_criterion(cfg.criterion))
    batch = dataset.collater([dataset[i] for i in range(args.batch_size)])
    return trainer, trainer._prepare_sample(batch)[0]


def step(trainer: Trainer, batch: dict) -> None:
    """Runs a forward and backward pass."""
    trainer.zero_grad()
    trainer.task.train_step(batch, trainer.model, trainer.criterion, trainer.optimizer, 0)


def seconds(run: Callable[[], object]) -> float:
    """Returns the seconds of a call, until its work on the GPU is done."""
    return Timer("run()", globals={"run": run}, num_threads=torch.get_num_threads()).timeit(1).mean


def peak_of_allocations(run: Callable[[], object], device: str = "cpu") -> int:
    """Returns the most bytes of tensors that were alive at a time, of those that a call allocated."""
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        run()
        return torch.cuda.max_memory_allocated() - before
    with torch.profiler.profile(profile_memory=True) as profile:
        run()
    events = [e for e in profile.profiler.kineto_results.events() if e.name() == "[memory]"]
    alive = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        alive += event.nbytes()
        peak = max(peak, alive)
    return peak


def measure(arch: str, trainer: Trainer, batch: dict, device: str) -> tuple[float, float]:
    """Returns the loss in nats, in evaluation, and the peak in MiB."""
    trainer.model.eval()
    with torch.no_grad():
        loss, size, _ = trainer.task.valid_step(batch, trainer.model, trainer.criterion)[:3]
    parameters = sum(p.numel() * p.element_size() for p in trainer.model.parameters())
    for parameter in trainer.model.parameters():
        parameter.grad = None
    peak = parameters + peak_of_allocations(lambda: step(trainer, batch), device)
    return float(loss) / size, peak / 2**20


@script
def main(argv: list[str] | None = None) -> None:
    args = arguments(argv)
    machine = torch.cuda.get_device_name() if args.device == "cuda" else platform.machine()
    print(f"{date.today()}, {machine}, torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(
        f"{args.precision}, {args.optimizer}, {args.update_freq} x {args.batch_size} x {args.tokens} tokens, "
        f"{args.mask_prob:.0%} masked, k = {args.k}, {args.vocabulary:,} entries\n"
    )
    with TemporaryDirectory() as folder:
        write_corpus(Path(folder), args)
        models = {arch: trainer_of(arch, Path(folder), args) for arch in args.arch}
    losses = {arch: measure(arch, *model, args.device) for arch, model in models.items()}
    steps, updates = ({arch: [] for arch in models} for _ in range(2))
    for _ in range(args.repeats + 1):
        for arch, (trainer, batch) in models.items():
            steps[arch].append(seconds(lambda: step(trainer, batch)))  # noqa: B023 (called at once)
            updates[arch].append(seconds(lambda: trainer.train_step([batch] * args.update_freq)))  # noqa: B023
    print("| model | loss | ms a step | x | ms an update | x | peak MiB | x |\n|---" + "|---:" * 7 + "|")
    first = None
    for arch, (loss, peak) in losses.items():  # the first repeat allocates the optimizer's state
        found = [1e3 * median(steps[arch][1:]), 1e3 * median(updates[arch][1:]), peak]
        first = first or found
        cells = (f"{value:,.1f} | {value / base:.2f}" for value, base in zip(found, first, strict=True))
        print(f"| {arch} | {loss:.5f} | {' | '.join(cells)} |")
