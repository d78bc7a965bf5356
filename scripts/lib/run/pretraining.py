"""Pre-training on text (tables 5 and 10) and on molecules (table 7): what scripts/pretrain_*.sh run."""

import argparse
import math
import re
import sys
from collections.abc import Callable
from operator import index
from pathlib import Path

from fairseq.data import data_utils
from fairseq.data.indexed_dataset import best_fitting_int_dtype
from lib.command_line import Flags, UserError, count, counted, positive, script, share, whole
from lib.files import CONFIGS, read_json
from lib.run.checkpoints import check_dictionary, read_checkpoint
from lib.run.cost import cost_text, expanded
from lib.run.launch import LAST, Training, arguments, as_bash, devices, drop_schedule

from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary
from fs_plugins.files import naming_errors

TOKENS_PER_GPU = 32768  # tokens of the base model that 40 GB hold
NEVER = 1_000_000
K = ("--ext-state-num", "--repeat-times")  # states of a masked token, or copies of each
REFUSED = {
    "--save-dir": "is SAVE",
    "--max-sentences": "is an old name: give --batch-size, which is that of an update",
    "--distributed-world-size": "is --gpus",
}
# Flags that a resumed pre-training may change: how long it trains, when to validate and stop
FREE = (
    "--max-update",
    "--total-num-update",
    "--warmup-updates",
    "--max-epoch",
    "--patience",
    "--stop-min-lr",
    "--disable-validation",
    "--max-valid-steps",
    "--no-save",
)
# which save at each epoch's end: fairseq does not save where --max-epoch or --stop-min-lr ends a training
BY_EPOCHS = {"--keep-last-epochs", "--save-interval", "--max-epoch", "--stop-min-lr"}
START = {"--restore-file", "--finetune-from-model", "--continue-once"}
VALIDATION = {"--max-valid-steps", "--batch-size-valid", "--max-tokens-valid"}
WHOLE = ("complete", "complete_doc", "eos")  # values of --sample-break-mode that cut no sentence


def add_options(add: Callable) -> None:
    """Adds the options besides those of all trainings."""
    states = "states of a masked token (default: the model's, in configs/model/)"
    add("--k", type=whole(1, 1024), help=states)
    add("--p", type=share, help="proportion of the tokens that are masked (default: the size's)")
    add("--updates", type=positive, metavar="N", help="updates in total (default: the size's)")
    length = "length of a sample; of SMILES, the longest molecule (default: the size's)"
    add("--tokens-per-sample", type=whole(3, 1 << 20), metavar="N", help=length)
    add("--seed", type=count, metavar="N", help="default: 1")
    tokens = "tokens of a step on each GPU, after expansion or repetition (default: %(default)s)"
    add("--tokens-per-gpu", type=positive, default=TOKENS_PER_GPU, metavar="N", help=tokens)
    sentences = "sentences of a validation (default: the size's, or all)"
    add("--valid-sentences", type=positive, metavar="N", help=sentences)


def resolve(corpus: str, words: list[str]) -> Training:
    """Returns one pre-training, on text or smiles; with --print, its cost is a note, and no data need be
    there. Raises UserError for what cannot be trained."""
    training = training_of(corpus, words)
    if training.args.print:
        training.note = cost_text(corpus, training.data, training.flags)
    else:
        check_data(corpus, training)
    return training


def training_of(corpus: str, words: list[str]) -> Training:
    """Returns a pre-training, whose data were not looked at."""
    sub, names = "smiles" if corpus == "smiles" else "", ["model", "size", "data", "save"]
    args = arguments(f"pretrain_{corpus}.sh", names, words, add_options, REFUSED)
    user, batch = args.user, "--batch-size" if corpus == "text" else "--max-tokens"
    if "--update-freq" in user and batch not in user:
        raise UserError(f"--update-freq needs {batch}, the batch of a step; see --help")

    given = {"--mask-prob": args.p, "--seed": args.seed}
    given |= {"--tokens-per-sample": args.tokens_per_sample, "--valid-sentences": args.valid_sentences}
    given |= dict.fromkeys(("--max-update", "--total-num-update"), args.updates)
    given = Flags({name: (str(value),) for name, value in given.items() if value is not None})
    flags = Flags.read(CONFIGS / "model" / sub / f"{args.model}.flags")
    flags |= Flags.read(CONFIGS / "pretrain" / sub / f"{args.size}.flags")
    least = flags.pop_all("--max-positions").whole("--max-positions", 1)
    flags |= given | user
    note = ""
    if user.value("--restore-file") not in (None, LAST) and (args.save / LAST).is_file():
        note = (
            f"resumes {args.save / LAST}: --restore-file, and --reset-... beside it, were for the first "
            "call; to start from that file again, remove this one"
        )
        flags.pop_all("--restore-file", *(name for name in user if name.startswith("--reset-")))
    updates, _ = flags.whole("--total-num-update"), flags.whole("--max-update")
    if "--warmup-updates" not in user and flags.whole("--warmup-updates") > updates // 2:
        flags.set("--warmup-updates", (updates + 9) // 10)  # short run
    drop_schedule(flags, user)
    if not BY_EPOCHS & user.keys():
        flags.set("--save-interval", NEVER)  # saves by updates
    set_states(corpus, args, flags, least)

    workers, device_flags = devices(args)
    update = str(flags.whole(batch))
    if "--update-freq" in flags:
        update = f"{update} x {flags.whole('--update-freq')} on {workers} workers"
    else:
        flags |= step_flags(batch, args.tokens_per_gpu, flags, workers)
    if (validation := flags.pop_all("--valid-sentences")) and not VALIDATION & user.keys():
        flags |= valid_flags(validation.whole("--valid-sentences"), args.tokens_per_gpu, flags)
    flags = flags | device_flags | user.only(*device_flags)  # the user wins
    return Training(args, args.data, flags, settings={"batch": update}, free=FREE, note=note)


def check_data(corpus: str, training: Training) -> None:
    """Names the files that a pre-training reads. Raises ValueError if they do not fit it or each other."""
    user, folders = training.args.user, [Path(part) for part in training.data.split(":")]
    # molecules can be cut as text is
    taken = (corpus, "smiles") if "--sample-break-mode" in user else (corpus,)
    first, *others = (checked_vocabulary(folder, corpus, taken) for folder in folders)
    for other in others:
        hint = f"prepare all DATA with one dict.txt: prepare_{corpus}.py --dictionary {first.source}"
        first.check(other, hint)
    training.dictionary = folders[0] / DICT_FILE
    # what is resumed has passed
    resumes = user.value("--restore-file") == LAST or (training.args.save / LAST).is_file()
    for name in set() if resumes else START & training.flags.keys():
        start = read_checkpoint(Path(user.value(name)))
        check_dictionary(start, training.dictionary, f"prepare DATA with the dict.txt of that of {name}")
    data = [path for folder in folders for path in sorted(folder.iterdir())]
    data = [path for path in data if re.fullmatch(r"(train|valid).*\.(bin|idx)", path.name)]
    if corpus == "text" and training.flags.value("--sample-break-mode") in WHOLE:
        check_lengths(data, training.flags)
    training.inputs = {"data": data}


def checked_vocabulary(folder: Path, corpus: str, taken: tuple[str, ...]) -> Vocabulary:
    """Returns the vocabulary of a folder of data, made for one of the corpora ``taken``. Raises
    UserError if the folder holds other data, has got another dict.txt since it was made, or files of other
    sizes."""
    about, vocabulary = read_json(folder / "prepared.json") or {}, Vocabulary.read(folder)
    with naming_errors(folder / "prepared.json"):
        made = about.get("kind", corpus)
        check_sizes(folder, about)
    if (folder / "molecules.json").exists() or (folder.parent / "summary.json").exists():
        made = "fine-tuning"
    if made not in taken:
        way_out = "finetune_*.sh" if made == "fine-tuning" else f"pretrain_{made}.sh"
        way_out += ", or give --sample-break-mode none to cut it into blocks" if made == "smiles" else ""
        raise UserError(f"{folder} holds data of {made}, not a corpus of {corpus}: give it to {way_out}")
    if about.get("vocabulary", vocabulary.identity) != vocabulary.identity:
        raise UserError(f"{vocabulary.source} is not the one that {folder} was made with: prepare it again")
    return vocabulary


def check_sizes(folder: Path, about: dict) -> None:
    """Raises UserError for a file that is not as large as its prepared.json, ``about``, says."""
    for split in ("train", "valid") if "symbols" in about else ():
        width = best_fitting_int_dtype(about["symbols"])().itemsize
        sizes = {"bin": index(about[split]["tokens"]) * width, "idx": 26 + 12 * about[split]["sentences"]}
        for path, size in ((folder / f"{split}.{end}", size) for end, size in sizes.items()):
            if path.is_file() and (there := path.stat().st_size) != size:
                raise UserError(f"{path} has {there:,} of {size:,} bytes: prepare or copy it again")


def check_lengths(files: list[Path], flags: Flags) -> None:
    """Raises UserError for a sentence that fills more than a sample: fairseq would stop at a validation."""
    most, mode = flags.whole("--tokens-per-sample"), flags.value("--sample-break-mode")
    for path in (path for path in files if path.suffix == ".idx" and path.is_file()):
        dataset = data_utils.load_indexed_dataset(str(path.with_suffix("")), None)  # sizes go with it
        longest = int(dataset.sizes.max()) + 1  # <s>
        if longest > most and "--skip-invalid-size-inputs-valid-test" not in flags:
            raise UserError(
                f"{path} has a sentence of {longest:,} tokens, which --sample-break-mode {mode} keeps whole: "
                f"give more than --tokens-per-sample {most}, or prepare the data with --max-tokens {most - 2}"
            )


def set_states(corpus: str, args: argparse.Namespace, flags: Flags, least: int) -> None:
    """Sets k, if it was given, and --max-positions, which counts the states or copies of a sample; each has
    ``least`` positions if a sample needs fewer (table 5's 512). Raises UserError for a k of the MLM."""
    tokens, name = flags.whole("--tokens-per-sample"), next((name for name in K if name in flags), None)
    if args.k and name:
        flags.set(name, args.k)
    elif args.k not in (None, 1):
        raise UserError(f"--k {args.k}: the mlm has one state for each token; exlm and repeated-mlm have k")
    k = flags.whole(name) if name else 1
    if corpus == "smiles":  # gives both models the positions to be fine-tuned on the same molecules
        exlm = Flags.read(CONFIGS / "model" / "smiles" / "exlm.flags")
        k = max(k, exlm.whole("--ext-state-num"))
    if corpus == "smiles" or name == "--ext-state-num":
        tokens += 1  # the </s> that ends a block cut in mid-sentence
    if "--max-positions" not in flags:
        flags.set("--max-positions", max(tokens, least) * k)


def valid_flags(sentences: int, tokens_per_gpu: int, flags: Flags) -> Flags:
    """Returns the flags by which every model and machine validates on the same sentences, of all lengths: in
    batches of a power of 2 that fit ``tokens_per_gpu``."""
    size, tokens = 1, expanded(flags.whole("--tokens-per-sample"), flags)
    while sentences % (2 * size) == 0 and 2 * size * tokens <= tokens_per_gpu:
        size *= 2
    limit = f"--max-tokens-valid {2 * size * tokens}" if "--max-tokens" in flags else ""  # no other limit
    return Flags.of(f"--batch-size-valid {size} --max-valid-steps {sentences // size - 1} {limit}")


def step_flags(batch: str, tokens_per_gpu: int, flags: Flags, workers: int) -> Flags:
    """Returns the batch of a step, by the flag that has the update's (--batch-size or --max-tokens), and
    --update-freq: an update in the fewest equal steps that fit. Raises UserError if it cannot be split."""
    update, tokens = flags.whole(batch), flags.whole("--tokens-per-sample")
    own = update // workers
    if batch == "--max-tokens":
        steps = max(1, -(-expanded(own, flags) // tokens_per_gpu))
        own *= flags.whole("--repeat-times", 1)  # fairseq counts the copies
    elif update % workers:
        raise UserError(f"--batch-size {update} on {counted(workers, 'GPU')}: give a multiple of {workers}")
    else:
        small = [n for n in range(1, math.isqrt(own) + 1) if own % n == 0]
        divisors = [*small, *(own // n for n in reversed(small))]
        steps = next((n for n in divisors if own // n * expanded(tokens, flags) <= tokens_per_gpu), own)
    return Flags.of(f"{batch} {own // steps} --update-freq {steps}")


@script
def main() -> int:
    print(as_bash(resolve(sys.argv[1], sys.argv[2:])))
