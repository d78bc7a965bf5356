"""Pre-training on text (tables 5 and 10) and on molecules (table 7): what scripts/pretrain_*.sh run."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lib.command_line import UserError, positive, run_main, share
from lib.flags import Flags
from lib.folders import CONFIGS
from lib.launch import TOKENS_PER_GPU, Training, devices, launch, script_parser, split_sentences

LARGEST_K = 16
EXPAND_FROM = "--expand-from-layer"
FREE = (  # what a pre-training may change when it is resumed: how long it trains, and when to look and stop
    *("--max-update", "--total-num-update", "--warmup-updates", "--stop-time-hours"),
    *("--disable-validation", "--max-valid-steps", "--no-save"),
)


@dataclass(frozen=True)
class Corpus:
    """What tells pre-training on text and on molecules apart.

    Attributes:
        script: its name.
        what: it trains on, in words.
        configs: a folder in configs/model and configs/size.
        recipe: the flag file of configs/pretrain/ for a size; "" for all others.
        default_k: states of a masked token.
        maker: what makes DATA.
        batch: the flag of an update's batch: --batch-size (sentences) or --max-tokens.
        entries, tokens: of the paper's dictionary, and of a typical sample (None: all have
            --tokens-per-sample), for what a run costs while DATA does not exist.
    """

    script: str
    what: str
    configs: str
    recipe: dict[str, str]
    default_k: int
    maker: str
    batch: str
    entries: int
    tokens: int | None


OF_TEXT = {"base": "table10", "large": "table10", "": "table5"}
MAKER = "prepare_text.py or fairseq-preprocess --only-source"
TEXT = Corpus("pretrain_text.sh", "text", "", OF_TEXT, 4, MAKER, "--batch-size", 50_265, None)
SMILES = Corpus(
    "pretrain_smiles.sh",
    "molecules",
    "smiles",
    {"": "table7"},
    2,
    "prepare_smiles.py",
    "--max-tokens",
    369,
    48,
)


def parse(corpus: Corpus, words: list[str]) -> tuple[argparse.Namespace, Flags]:
    """The arguments, and further flags for fairseq-train."""
    parser = script_parser(corpus.script)
    add = parser.add_argument
    k = f"states of a masked token, 1 to {LARGEST_K} (default: {corpus.default_k}; mlm has none)"
    add("--k", type=positive, help=k)
    add("--p", type=share, help="proportion of the tokens that are masked (default: the recipe's)")
    add("--updates", type=positive, metavar="N", help="updates in total (default: the recipe's or size's)")
    add("--recipe", help="hyper-parameters, a file of configs/pretrain/ (default: the size's)")
    step = "tokens of a step on each GPU, after expansion or repetition (default: %(default)s)"
    add("--tokens-per-gpu", type=positive, default=TOKENS_PER_GPU, metavar="N", help=step)
    add("--card", default="A100", help="GPU of --print's hours (default: %(default)s)")
    peak = "proportion of the card's peak, for --print's hours (default: %(default)s)"
    add("--utilization", type=share, default=0.5, metavar="P", help=peak)
    args, others = parser.parse_known_args(words)
    user = Flags.of(others)
    refused = {
        **dict.fromkeys(("--ext-state-num", "--repeat-times"), "is set by --k"),
        "--save-dir": "is SAVE",
        "--max-sentences": "is an old name: give --batch-size, which is that of an update",
    }
    # --max-update beside --updates stops a training early, and leaves the schedule as it is
    if args.p is not None:
        refused["--mask-prob"] = "is the same as --p: give one"
    if args.updates is not None:
        refused["--total-num-update"] = "is the same as --updates: give one"
    if "--update-freq" in user and corpus.batch not in user:
        refused["--update-freq"] = (
            f"is worked out from {corpus.batch}, the batch of an update, and --tokens-per-gpu: give one of "
            f"those, or {corpus.batch} of a step together with --update-freq"
        )
    for name, why in refused.items():
        if name in user:
            raise UserError(f"{name} {why}; see --help")
    return args, user


def resolve(corpus: Corpus, words: list[str]) -> Training:
    """One pre-training.

    Raises:
        UserError: for what cannot be trained.
    """
    args, user = parse(corpus, words)
    recipe = args.recipe or corpus.recipe.get(args.size, corpus.recipe[""])
    flags = Flags.named("model", args.model, CONFIGS / "model" / corpus.configs)
    flags |= Flags.named("recipe", recipe, CONFIGS / "pretrain")
    flags |= Flags.named("size", args.size, CONFIGS / "size" / corpus.configs)
    if args.p is not None:
        flags.set("--mask-prob", f"{args.p:g}")
    if args.updates is not None:
        flags.set("--max-update", args.updates)
        flags.set("--total-num-update", args.updates)
    flags |= user
    if "--warmup-updates" not in user:
        shorten_warmup(flags)
    if EXPAND_FROM in user:
        check_expansion(args.model, flags)
    k = states(args.model, args.k, corpus)
    flags = model_flags(corpus, args.model, k, flags) | flags
    if corpus.batch not in flags:
        raise UserError(
            f"--recipe {args.recipe}: {corpus.what} need a recipe with {corpus.batch}, such as "
            f"{corpus.recipe['']}"
        )
    workers, device_flags = devices(args)
    batch, update = split_batch(corpus, args, k, flags, workers)
    flags |= batch | device_flags | user.take(*device_flags)
    folders, save = [Path(part) for part in args.data.split(":")], Path(args.save)
    training = Training(save, args.data, flags, {"batch": update}, {}, lambda: "", args.print, free=FREE)
    if args.print:
        training.notes = [cost_text(corpus, args, k, flags, workers)]
        return training
    check_data(folders, corpus)
    indices = [path for folder in folders for path in sorted(folder.glob("train*.idx"))]
    training.inputs = {"dict.txt": [folders[0] / "dict.txt"], "train": indices}
    training.finished = lambda: finished(save / "checkpoint_last.pt", flags)
    return training


def cost_text(corpus: Corpus, args: argparse.Namespace, k: int, flags: Flags, workers: int) -> str:
    """What the run will cost, in words."""
    from lib import cost

    if args.card not in cost.CARDS:
        raise UserError(f"--card {args.card}: choose one of {', '.join(cost.CARDS)}")
    folders = [Path(part) for part in args.data.split(":")]
    found = corpus.tokens is None or all((folder / "train.idx").is_file() for folder in folders)
    lengths = cost.lengths(args.data, flags) if found else cost.np.array([corpus.tokens])
    dictionary = folders[0] / "dict.txt"
    V = cost.entries_of(cost.read_symbols(dictionary)) if dictionary.is_file() else corpus.entries
    step = flags.whole(corpus.batch) / (lengths.mean() if corpus.batch == "--max-tokens" else 1)
    samples = step * flags.whole("--update-freq") * workers
    sizes = cost.model_of(args.model, k, flags, flags, V, lengths)
    updates = flags.whole("--max-update")
    return cost.text_of(sizes, samples, step, updates, workers, args.card, args.utilization)


def states(model: str, asked: int | None, corpus: Corpus) -> int:
    """k: states of a masked token, or copies of each token."""
    if model == "mlm":
        if asked not in (None, 1):
            raise UserError(
                f"--k {asked}: the mlm has one state for each token; exlm and repeated-mlm have k"
            )
        return 1
    k = corpus.default_k if asked is None else asked
    if k > LARGEST_K:
        raise UserError(f"--k {k}: give a whole number from 1 to {LARGEST_K}")
    return k


def check_expansion(model: str, flags: Flags) -> None:
    """Raises UserError if a model cannot be expanded after the layers that are asked for."""
    from lib import cost

    if model in ("mlm", "repeated-mlm"):
        raise UserError(f"{EXPAND_FROM}: {model} expands no tokens; give it with an exlm")
    cost.expand_from_layer(flags, cost.encoder_sizes(flags)[0])


def shorten_warmup(flags: Flags) -> None:
    """A warm-up of more than half of a short run becomes a tenth of it."""
    updates = flags.whole("--total-num-update")
    if int(flags.value("--warmup-updates") or 0) > updates // 2:
        flags.set("--warmup-updates", (updates + 9) // 10)


def model_flags(corpus: Corpus, model: str, k: int, flags: Flags) -> Flags:
    """Those that depend on k and on the length of a sample."""
    tokens = flags.whole("--tokens-per-sample")
    if model == "repeated-mlm":
        return Flags({"--repeat-times": (str(k),), "--max-positions": (str(tokens * k),)})
    # k more than table 5's tokens * k, for the </s> that ends a block cut in mid-sentence; as many for both
    # models of molecules, so that both are fine-tuned on the same molecules
    positions = (tokens + 1) * (max(k, corpus.default_k) if corpus is SMILES else k)
    if model == "mlm":
        return Flags({"--max-positions": (str(tokens if corpus is TEXT else positions),)})
    return Flags({"--max-positions": (str(positions),), "--ext-state-num": (str(k),)})


def split_batch(corpus: Corpus, args, k: int, flags: Flags, workers: int) -> tuple[Flags, str]:
    """(flags of a step's batch and how many make an update, the update's batch).

    Raises:
        UserError: if the update cannot be split.
    """
    update, tokens = flags.whole(corpus.batch), flags.whole("--tokens-per-sample")
    if "--update-freq" in flags:
        return Flags(), f"{update} x {flags.whole('--update-freq')} on {workers} workers"
    masked = round(flags.number("--mask-prob", below=1) * 10**6)

    def expanded(n: int) -> int:
        """Tokens that the encoder sees for n of the data."""
        return n * k if args.model == "repeated-mlm" else n + n * masked * (k - 1) // 10**6

    if corpus.batch == "--batch-size":
        return split_sentences(update, expanded(tokens), workers, args.tokens_per_gpu), str(update)
    own = update // workers
    steps = max(1, -(-expanded(own) // args.tokens_per_gpu))
    if own // steps < tokens:
        raise UserError(
            f"an update of {update} tokens (--max-tokens) on {workers} GPUs in {steps} steps has "
            f"{own // steps} tokens per step, and a molecule may have {tokens} (--tokens-per-sample): give "
            "fewer --gpus, or more --tokens-per-gpu"
        )
    return Flags({"--max-tokens": (str(own // steps),), "--update-freq": (str(steps),)}), str(update)


def check_data(folders: list[Path], corpus: Corpus) -> None:
    """Raises UserError if a folder of DATA has no dictionary or no training set."""
    for folder in folders:
        if not (folder / "dict.txt").is_file():
            raise UserError(f"{folder / 'dict.txt'} does not exist: DATA is a folder made by {corpus.maker}")
        if not any(folder.glob("train*.idx")):
            shards = ":".join(str(path.parent) for path in sorted(folder.glob("*/train*.idx")))
            raise UserError(
                f"{folder} has no train.idx{f'; for its shards, give {shards}' if shards else ''}"
            )


def finished(last: Path, flags: Flags) -> str:
    """Why there is nothing to train (fairseq would train one update more), or "" if there is something."""
    most = int(flags.value("--max-update") or 0)
    if not last.is_file() or not most or {"--restore-file", "--reset-optimizer"} & flags.keys():
        return ""
    from lib.checkpoints import trained_updates

    done = trained_updates(last)
    return f"finished before: {last} has had {done} updates; for more, give --updates" if most <= done else ""


def main() -> int:
    corpus = {"text": TEXT, "smiles": SMILES}[sys.argv[1]]
    return launch(corpus.script, partial(resolve, corpus), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(run_main(main))
