"""Pre-training on text (tables 5 and 10) and on molecules (table 7): what scripts/pretrain_*.sh run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lib.command_line import Flags, UserError, positive, run_main, share
from lib.files import CONFIGS
from lib.launch import Training, devices, launch, script_parser, split_sentences

TOKENS_PER_GPU = 32768  # of a step, after expansion: what 40 GB hold of the base model
FREE = (  # what a pre-training may change when it is resumed: how long it trains, and when to look and stop
    *("--max-update", "--total-num-update", "--warmup-updates", "--stop-time-hours"),
    *("--disable-validation", "--max-valid-steps", "--no-save"),
)


@dataclass(frozen=True)
class Corpus:
    """What tells pre-training on text and on molecules apart.

    Attributes:
        script: its name.
        configs: a folder in configs/model and configs/pretrain.
        default_k: states of a masked token.
        maker: what makes DATA.
        batch: the flag of an update's batch: --batch-size (sentences) or --max-tokens.
    """

    script: str
    configs: str
    default_k: int
    maker: str
    batch: str


TEXT = Corpus(
    "pretrain_text.sh", "", 4, "prepare_text.py or fairseq-preprocess --only-source", "--batch-size"
)
SMILES = Corpus("pretrain_smiles.sh", "smiles", 2, "prepare_smiles.py", "--max-tokens")


def parse(corpus: Corpus, words: list[str]) -> tuple[argparse.Namespace, Flags]:
    """The arguments, and further flags for fairseq-train."""
    parser = script_parser(corpus.script)
    add = parser.add_argument
    k = f"states of a masked token (default: {corpus.default_k}; mlm has none)"
    add("--k", type=positive, help=k)
    add("--p", type=share, help="proportion of the tokens that are masked (default: the size's)")
    add("--updates", type=positive, metavar="N", help="updates in total (default: the size's)")
    step = "tokens of a step on each GPU, after expansion or repetition (default: %(default)s)"
    add("--tokens-per-gpu", type=positive, default=TOKENS_PER_GPU, metavar="N", help=step)
    add("--card", default="A100", help="GPU of --print's hours (default: %(default)s)")
    args, others = parser.parse_known_args(words)
    user = Flags.of(others)
    refused = {
        **dict.fromkeys(("--ext-state-num", "--repeat-times"), "is set by --k"),
        "--save-dir": "is SAVE",
        "--max-sentences": "is an old name: give --batch-size, which is that of an update",
    }
    if corpus.batch not in user:
        refused["--update-freq"] = f"needs {corpus.batch}, the batch of a step"
    for name, why in refused.items():
        if name in user:
            raise UserError(f"{name} {why}; see --help")
    if args.p is not None:
        user = Flags({"--mask-prob": (f"{args.p:g}",)}) | user
    if args.updates is not None:
        updates = (str(args.updates),)
        user = Flags({"--max-update": updates, "--total-num-update": updates}) | user
    return args, user


def resolve(corpus: Corpus, words: list[str]) -> Training:
    """One pre-training.

    Raises:
        UserError: for what cannot be trained.
    """
    args, user = parse(corpus, words)
    flags = Flags.named("model", args.model, CONFIGS / "model" / corpus.configs)
    flags |= Flags.named("size", args.size, CONFIGS / "pretrain" / corpus.configs) | user
    if "--warmup-updates" not in user:
        shorten_warmup(flags)
    flags = model_flags(corpus, args, flags) | flags
    workers, device_flags = devices(args)
    batch, update = split_batch(corpus, args, flags, workers)
    flags |= batch | device_flags | user.take(*device_flags)
    folders, save = [Path(part) for part in args.data.split(":")], Path(args.save)
    training = Training(save, args.data, flags, settings={"batch": update}, show=args.print, free=FREE)
    if args.print:
        from lib.cost import cost_text

        training.notes = [cost_text(args.data, flags, args.card)]
        return training
    for folder in folders:
        for name in ("dict.txt", "train.idx"):
            if not (folder / name).is_file():
                raise UserError(
                    f"{folder / name} does not exist: DATA is a folder made by {corpus.maker}, or several, "
                    "joined by ':'"
                )
    indices = [path for folder in folders for path in sorted(folder.glob("train*.idx"))]
    training.inputs = {"dict.txt": [folders[0] / "dict.txt"], "train": indices}
    training.finished = lambda: finished(save / "checkpoint_last.pt", flags)
    return training


def shorten_warmup(flags: Flags) -> None:
    """A warm-up of more than half of a short run becomes a tenth of it."""
    updates = flags.whole("--total-num-update")
    if flags.whole("--warmup-updates") > updates // 2:
        flags.set("--warmup-updates", (updates + 9) // 10)


def model_flags(corpus: Corpus, args: argparse.Namespace, flags: Flags) -> Flags:
    """Those that depend on k, the states of a masked token or copies of each, and on a sample's length."""
    tokens, k = flags.whole("--tokens-per-sample"), args.k or corpus.default_k
    # k more than table 5's tokens * k, for the </s> that ends a block cut in mid-sentence; as many for both
    # models of molecules, so that both are fine-tuned on the same molecules
    positions = (tokens + 1) * (max(k, corpus.default_k) if corpus is SMILES else k)
    if args.model == "repeated-mlm":
        return Flags({"--repeat-times": (str(k),), "--max-positions": (str(tokens * k),)})
    if args.model != "mlm":
        return Flags({"--max-positions": (str(positions),), "--ext-state-num": (str(k),)})
    if args.k not in (None, 1):
        raise UserError(f"--k {k}: the mlm has one state for each token; exlm and repeated-mlm have k")
    return Flags({"--max-positions": (str(tokens if corpus is TEXT else positions),)})


def split_batch(corpus: Corpus, args: argparse.Namespace, flags: Flags, workers: int) -> tuple[Flags, str]:
    """(flags of a step's batch and how many make an update, the update's batch).

    Raises:
        UserError: if the update cannot be split.
    """
    update, tokens = flags.whole(corpus.batch), flags.whole("--tokens-per-sample")
    if "--update-freq" in flags:
        return Flags(), f"{update} x {flags.whole('--update-freq')} on {workers} workers"
    masked = round(flags.proportion("--mask-prob") * 10**6)
    copies, states = flags.whole("--repeat-times", 1), flags.whole("--ext-state-num", 1)

    def expanded(n: int) -> int:
        """Tokens that the encoder sees for n of the data."""
        return n * copies + n * masked * (states - 1) // 10**6

    if corpus.batch == "--batch-size":
        return split_sentences(update, expanded(tokens), workers, args.tokens_per_gpu), str(update)
    own = update // workers
    steps = max(1, -(-expanded(own) // args.tokens_per_gpu))
    if own // steps < tokens:
        raise UserError(
            f"--max-tokens {update} on {workers} GPUs in {steps} steps is {own // steps} a step, and a "
            f"molecule may have {tokens} (--tokens-per-sample): give fewer --gpus, or more --tokens-per-gpu"
        )
    return Flags({"--max-tokens": (str(own // steps),), "--update-freq": (str(steps),)}), str(update)


def finished(last: Path, flags: Flags) -> str:
    """Why there is nothing to train (fairseq would train one update more), or "" if there is something."""
    if not last.is_file() or {"--restore-file", "--reset-optimizer"} & flags.keys():
        return ""
    done, most = trained_updates(last), flags.whole("--max-update")
    return f"finished before: {last} has had {done} updates; for more, give --updates" if most <= done else ""


def trained_updates(path: Path) -> int:
    """The updates that a checkpoint of fairseq-train has had; 0 if it is damaged (fairseq-train says how)."""
    import torch

    import fs_plugins  # noqa: F401  (registers what torch.load may load)

    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return int(checkpoint["optimizer_history"][-1]["num_updates"])
    except Exception:
        return 0


def main() -> int:
    corpus = {"text": TEXT, "smiles": SMILES}[sys.argv[1]]
    return launch(corpus.script, partial(resolve, corpus), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(run_main(main))
