"""Pre-training on text (tables 5 and 10) and on molecules (table 7)."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recipes import folders
from recipes.command_line import RecipeError, argument_parser, positive, share
from recipes.dictionaries import entries_of, read_symbols
from recipes.files import sha256
from recipes.flags import Flags
from recipes.plan import cost
from recipes.plan.batches import TOKENS_PER_GPU, split_sentences, split_tokens
from recipes.plan.devices import Devices, add_device_arguments
from recipes.plan.plan import Plan, override

LARGEST_K = 16
MOLECULE = 48  # tokens of a drug-like molecule, for what a run costs while DATA does not exist
EXPAND_FROM = "--expand-from-layer"
MODEL_FLAGS = (  # those of recipes and sizes that make the model
    *("--encoder-layers", "--encoder-embed-dim", "--encoder-ffn-embed-dim", "--encoder-attention-heads"),
    *("--activation-fn", "--embedding-init-std"),
)


@dataclass(frozen=True)
class Corpus:
    """What tells pre-training on text and on molecules apart.

    Attributes:
        what: in words.
        models, sizes: folders of flag files.
        recipe: the flag file of configs/pretrain/ for a size; "" for all others.
        default_k: states of a masked token.
        maker: what makes DATA.
        batch: the flag of an update's batch: --batch-size (sentences) or --max-tokens.
        details: of the help text.
        entries: of the paper's dictionary, for what a run costs while DATA does not exist.
    """

    what: str
    models: Path
    sizes: Path
    recipe: dict[str, str]
    default_k: int
    maker: str
    batch: str
    details: str
    entries: int


TEXT = Corpus(
    "text",
    folders.CONFIGS / "model",
    folders.CONFIGS / "size",
    {"base": "table10", "large": "table10", "": "table5"},
    4,
    "prepare_text.py or fairseq-preprocess --only-source",
    "--batch-size",
    """\
  MODEL  exlm, mlm or repeated-mlm; of the paper's tables 2 and 13: exlm-1d-rope, exlm-no-transitions,
         exlm-sparse; or another of configs/model/
  SIZE   base or large: the paper's text models, with table 10 (configs/pretrain/table10.flags);
         paper, small or smoke: the study of [MASK], with table 5 (configs/size/)
  DATA   a folder made by prepare_text.py or fairseq-preprocess --only-source; or several, joined by ':'
  SAVE   the folder for checkpoints and log""",
    50_265,
)
SMILES = Corpus(
    "molecules",
    folders.CONFIGS / "model" / "smiles",
    folders.CONFIGS / "size" / "smiles",
    {"": "table7"},
    2,
    "prepare_smiles.py",
    "--max-tokens",
    """\
  MODEL  exlm, or mlm: SMILES-BERT, the same encoder without states (configs/model/smiles/)
  SIZE   smoke, small or paper (configs/size/smiles/)
  DATA   a folder made by prepare_smiles.py
  SAVE   the folder for checkpoints and log""",
    369,
)
HELP = """\
Pre-trains one model on {what}.

{details}

If interrupted, rerun the same command to resume. A SAVE that holds a run of other settings or data is refused
(SAVE/made_of.json). Further options are passed to fairseq-train and override configs/. {batch} is that of an
update: it is split over the GPUs and, with --update-freq, over as many steps as --tokens-per-gpu requires;
if you give --update-freq too, both have fairseq's meaning. To train on several machines, start one process
per GPU with torchrun (docs/data.md)."""


def parse(corpus: Corpus, program: str, words: list[str]) -> tuple[argparse.Namespace, Flags]:
    """The arguments, and further flags for fairseq-train."""
    about = HELP.format(what=corpus.what, details=corpus.details, batch=corpus.batch)
    parser = argument_parser(
        about, prog=program, usage="%(prog)s MODEL SIZE DATA SAVE [options] [fairseq-train's flags]"
    )
    for name in ("model", "size", "data", "save"):
        parser.add_argument(name, metavar=name.upper(), help=argparse.SUPPRESS)
    add = parser.add_argument
    add(
        "--k",
        type=positive,
        help=f"states of a masked token, 1 to {LARGEST_K} (default: {corpus.default_k}; mlm has none)",
    )
    add("--p", type=share, help="share of the tokens that are masked (default: the recipe's)")
    add("--updates", type=positive, metavar="N", help="updates in total (default: the recipe's or size's)")
    add(
        "--recipe", metavar="NAME", help="hyper-parameters, a file of configs/pretrain/ (default: the size's)"
    )
    add(
        *("--tokens-per-gpu",),
        type=positive,
        default=TOKENS_PER_GPU,
        metavar="N",
        help="tokens of a step on each GPU, after expansion or repetition (default: %(default)s)",
    )
    add_device_arguments(parser)
    add("--print", action="store_true", help="show the command and what the run will cost; train nothing")
    add("--card", choices=cost.CARDS, default="A100", help="GPU of --print's hours (default: %(default)s)")
    utilization = "share of the card's peak, for --print's hours (default: %(default)s)"
    add("--utilization", type=share, default=0.5, metavar="SHARE", help=utilization)
    args, others = parser.parse_known_args(words)
    user = Flags.of(others)
    own = {
        **dict.fromkeys(("--ext-state-num", "--repeat-times"), "is set by --k"),
        "--save-dir": "is SAVE",
        "--max-sentences": "is an old name: give --batch-size, which is that of an update",
    }
    for name, why in own.items():
        if name in user:
            raise RecipeError(f"{name} {why}; see --help")
    # --max-update beside --updates stops a training early, and leaves the schedule as it is
    for given, page, flag in (
        (args.p, "--p", "--mask-prob"),
        (args.updates, "--updates", "--total-num-update"),
    ):
        if given is not None and flag in user:
            raise RecipeError(f"{page} and {flag} are given, which are one and the same: give one")
    return args, user


def plan(corpus: Corpus, program: str, words: list[str]) -> Plan:
    """The plan of one pre-training.

    Raises:
        RecipeError: for what cannot be trained.
    """
    args, user = parse(corpus, program, words)
    recipe_name = args.recipe or corpus.recipe.get(args.size, corpus.recipe[""])
    model = read_flags("model", args.model, corpus.models)
    size = read_flags("size", args.size, corpus.sizes)
    recipe = Flags(read_flags("recipe", recipe_name, folders.CONFIGS / "pretrain") | size)
    model |= recipe.take(*MODEL_FLAGS)
    if args.p is not None:
        recipe.set("--mask-prob", f"{args.p:g}")
    if args.updates is not None:
        recipe.set("--max-update", args.updates)
        recipe.set("--total-num-update", args.updates)
    if "--update-freq" in user and corpus.batch not in user:
        raise RecipeError(
            f"--update-freq is worked out from {corpus.batch}, the batch of an update, and --tokens-per-gpu: "
            f"give one of those, or {corpus.batch} of a step together with --update-freq"
        )
    given_warmup = "--warmup-updates" in user
    if EXPAND_FROM in user:
        check_expansion(args.model, Flags(model | user))
        model |= user.take(EXPAND_FROM)
    model, recipe, user = override({"model": model, "recipe": recipe}, user).values()
    if not given_warmup:
        shorten_warmup(recipe)
    k = states(args.model, args.k, corpus)
    model |= model_sizes(corpus, args.model, k, recipe)
    devices = Devices.find(args.gpus, precision=args.precision)
    batch, update = batches(corpus, args, k, recipe, user, devices)
    parts = args.data.split(":")
    if not args.print:
        check_data(parts, corpus)
    plan = Plan(
        save=Path(args.save),
        data=args.data,
        groups={"model": model, "recipe": recipe, "batch": batch, "device": devices.flags, "user": user},
        asked={"model": args.model, "size": args.size, "recipe": recipe_name, "k": k, "batch": update},
        inputs={} if args.print else data_hashes(parts),
        show=args.print,
        notes=[cost_text(corpus, args, k, model, recipe, batch, devices)] if args.print else [],
    )
    if not args.print:
        plan.finished = finished(plan, recipe, user)
    return plan


def cost_text(
    corpus: Corpus, args, k: int, model: Flags, recipe: Flags, batch: Flags, devices: Devices
) -> str:
    """What the run will cost, in words."""
    found = all((Path(part) / "train.idx").is_file() for part in args.data.split(":"))
    lengths = cost.lengths(args.data, recipe) if corpus is TEXT or found else np.array([MOLECULE])
    tokens = lengths.mean()
    dictionary = Path(args.data.split(":")[0]) / "dict.txt"
    V = entries_of(read_symbols(dictionary)) if dictionary.is_file() else corpus.entries
    step = batch.whole(corpus.batch) / (tokens if corpus.batch == "--max-tokens" else 1)
    samples = step * batch.whole("--update-freq") * devices.workers
    sizes = cost.model_of(args.model, k, model, recipe, V, lengths)
    updates = recipe.whole("--max-update")
    return cost.text_of(sizes, samples, step, updates, devices.workers, args.card, args.utilization)


def read_flags(what: str, name: str, folder: Path) -> Flags:
    """The flag file of a name.

    Raises:
        RecipeError: if there is none.
    """
    known = sorted(path.stem for path in folder.glob("*.flags"))
    if name not in known:
        raise RecipeError(f"unknown {what} '{name}': choose one of {', '.join(known)}")
    return Flags.read(folder / f"{name}.flags")


def states(model: str, asked: int | None, corpus: Corpus) -> int:
    """k: states of a masked token, or copies of each token."""
    if model == "mlm":
        if asked not in (None, 1):
            raise RecipeError(
                f"--k {asked}: the mlm has one state for each token; exlm and repeated-mlm have k"
            )
        return 1
    k = corpus.default_k if asked is None else asked
    if k > LARGEST_K:
        raise RecipeError(f"--k {k}: give a whole number from 1 to {LARGEST_K}")
    return k


def check_expansion(name: str, model: Flags) -> None:
    """Raises RecipeError if a model cannot be expanded after the layers that are asked for."""
    if name in ("mlm", "repeated-mlm"):
        raise RecipeError(f"{EXPAND_FROM}: {name} expands no tokens; give it with an exlm")
    cost.expand_from_layer(model, cost.encoder_sizes(model)[0])


def shorten_warmup(recipe: Flags) -> None:
    """A warm-up of more than half of a short run becomes a tenth of it."""
    updates = recipe.whole("--total-num-update")
    if int(recipe.value("--warmup-updates") or 0) > updates // 2:
        recipe.set("--warmup-updates", (updates + 9) // 10)


def model_sizes(corpus: Corpus, model: str, k: int, recipe: Flags) -> Flags:
    """Flags that depend on k and on the length of a sample."""
    tokens = recipe.whole("--tokens-per-sample")
    flags = Flags()
    if model == "repeated-mlm":
        flags.set("--repeat-times", k)
        flags.set("--max-positions", tokens * k)
    elif model != "mlm":
        flags.set("--ext-state-num", k)
    if corpus is SMILES:  # as many for both models, so that both are fine-tuned on the same molecules
        k = max(k, corpus.default_k)
    if "--max-positions" not in flags:
        # k more than table 5's tokens * k, for the </s> that ends a block cut in mid-sentence
        flags.set("--max-positions", tokens if corpus is TEXT and model == "mlm" else tokens * k + k)
    return flags


def expanded(tokens: int, model: str, k: int, p: float) -> int:
    """Tokens that the encoder sees for as many of the data."""
    if model == "repeated-mlm":
        return tokens * k
    return tokens + tokens * round(p * 10**6) * (k - 1) // 10**6


def batches(corpus: Corpus, args, k: int, recipe: Flags, user: Flags, devices: Devices) -> tuple[Flags, str]:
    """Flags of a step's batch, and the update's in words.

    Raises:
        RecipeError: if the update cannot be split.
    """
    if recipe.value(corpus.batch) is None:
        raise RecipeError(
            f"--recipe {args.recipe}: {corpus.what} need a recipe with {corpus.batch}, such as "
            f"{corpus.recipe['']}"
        )
    update, tokens = recipe.whole(corpus.batch), recipe.whole("--tokens-per-sample")
    step = recipe.take(corpus.batch)
    if "--update-freq" in user:
        step |= user.take("--update-freq")
        return step, f"{step} on {devices.workers} workers"
    p = recipe.number("--mask-prob", below=1)
    if corpus.batch == "--batch-size":
        length = expanded(tokens, args.model, k, p)
        found = split_sentences(update, length, devices.workers, args.tokens_per_gpu)
    else:
        share = expanded(update // devices.workers, args.model, k, p)
        found = split_tokens(update, share, tokens, devices.workers, args.tokens_per_gpu)
    return found, f"{step}"


def check_data(parts: list[str], corpus: Corpus) -> None:
    """Raises RecipeError if a folder of DATA has no dictionary or no training set."""
    for part in map(Path, parts):
        if not (part / "dict.txt").is_file():
            raise RecipeError(f"{part / 'dict.txt'} does not exist: DATA is a folder made by {corpus.maker}")
        if not any(part.glob("train*.idx")):
            shards = ":".join(str(path.parent) for path in sorted(part.glob("*/train*.idx")))
            way_out = f"; for its shards, give {shards}" if shards else ""
            raise RecipeError(f"{part} has no train.idx{way_out}")


def data_hashes(parts: list[str]) -> dict[str, str]:
    """Of the dictionary and of the training set's index: the data may be moved, but not changed."""
    indices = [path for part in parts for path in sorted(Path(part).glob("train*.idx"))]
    return {"dict.txt": sha256(Path(parts[0]) / "dict.txt"), "train": sha256(*indices)}


def finished(plan: Plan, recipe: Flags, user: Flags) -> str:
    """Why there is nothing to train (fairseq would train one update more), or "" if there is something.

    Raises:
        RecipeError: if the folder holds another run.
    """
    last, most = plan.save / "checkpoint_last.pt", recipe.value("--max-update")
    if not last.is_file() or not most or {"--restore-file", "--reset-optimizer"} & user.keys():
        return ""
    folders.check(plan.save, plan.settings(), plan.inputs)  # before seconds are spent on the checkpoint
    from recipes.checkpoints import trained_updates

    done = trained_updates(last)
    if not 0 < int(most) <= done:
        return ""
    return f"finished before: {last} has had {done} updates; for more, give --updates"
