"""Fine-tuning on GLUE, SQuAD 2.0 and MoleculeNet (tables 1 and 3): what scripts/finetune_*.sh run."""

from __future__ import annotations

import argparse
import math
import os
import sys
from functools import partial
from pathlib import Path

from lib.checkpoints import FINETUNING_TASKS, Pretrained, check_dictionary, read_checkpoint
from lib.command_line import Flags, UserError, count, run_main
from lib.files import CONFIGS, RESULT, read_json
from lib.launch import Training, devices, launch, script_parser, visible_gpus

SET_HERE = {name: "is set by the script" for name in ("--seed", "--save-dir", "--finetune-from-model")}
SET_HERE |= {"--restore-file": "is the script's: a run in SAVE is resumed"}
SET_HERE |= dict.fromkeys(("--max-sentences", "--max-tokens"), "stands beside --batch-size: give that alone")
LONGEST = 512  # tokens that every model reads at least, however short the samples of its pre-training were
POINT = {"lr": "--lr", "batch": "--batch-size", "epochs": "--max-epoch", "warmup": "--warmup-ratio"}
BOS, EOS = 0, 2  # <s> and </s> of every fairseq dictionary
RECIPES = CONFIGS / "finetune"
WINDOW = ("--window-tokens", "--doc-stride", "--max-question-tokens", "--max-answer-tokens")


class FineTuning:
    """A fine-tuning as it was asked for, for one of the resolvers below.

    Attributes:
        args: its options.
        user: further flags for fairseq-train.
        workers, devices: processes that train together, and their flags.
        pretrained: the checkpoint to start from.
    """

    def __init__(self, parser: argparse.ArgumentParser, words: list[str], several_gpus: bool = False):
        """
        Raises:
            UserError: for flags that the script sets, paths that fairseq cannot take, or another checkpoint.
        """
        parser.add_argument("--seed", type=count, default=1, metavar="N", help="default: %(default)s")
        self.args, others = parser.parse_known_args(words)
        args, self.user = self.args, Flags.of(others)
        args.checkpoint, args.data, args.save = map(Path, (args.checkpoint, args.data, args.save))
        for name in self.user.keys() & SET_HERE:
            raise UserError(f"{name} {SET_HERE[name]}; see --help")
        if ":" in str(args.data):
            raise UserError(f"{args.data}: fairseq takes a folder without ':' in its name")
        if not several_gpus:
            if args.gpus is None:
                args.gpus = min(len(visible_gpus()), 1)
            if args.gpus > 1:
                raise UserError(f"--gpus {args.gpus}: {parser.prog} trains on one GPU, or the CPU")
        self.workers, self.devices = devices(args, os.environ if several_gpus else {})
        self.pretrained = read_checkpoint(args.checkpoint)
        if self.pretrained.task in FINETUNING_TASKS:  # its scores would pass for the pre-training's
            raise UserError(
                f"{args.checkpoint} was fine-tuned (--task {self.pretrained.task}): give the checkpoint of "
                "the pre-training"
            )

    def positions(self, least: int = LONGEST) -> int:
        """--max-positions. Rotary positions have no weights: an MLM may have more than its pre-training had,
        else it would lose what an ExLM, whose positions count its states, gets to read."""
        own = self.pretrained.max_positions
        return own if self.pretrained.expands else max(own, least * self.pretrained.repeat)

    def training(self, data: Path, flags: Flags, rows: int, files: list[Path], **more) -> Training:
        """The training, which is finished when it has its result.

        Args:
            flags: with the user's; --batch-size is that of an update, --warmup-ratio is changed into updates.
            rows: examples of the training set.
            files: of the data, whose contents may not change.
            more: of :class:`Training`: notes; words, settings and inputs besides every fine-tuning's.

        Raises:
            UserError: if the update cannot be split over the workers and the user's --update-freq.
        """
        args, flags = self.args, Flags(flags)
        point = {name: flags.value(flag) for name, flag in POINT.items()}
        update, steps = flags.whole("--batch-size"), flags.whole("--update-freq", 1)
        if update % (steps * self.workers):
            raise UserError(
                f"--batch-size {update} is that of an update, and cannot be split evenly over {self.workers} "
                f"GPUs and --update-freq {steps}"
            )
        flags.set("--batch-size", update // (steps * self.workers))
        flags.set("--update-freq", steps)
        updates = flags.whole("--max-epoch") * math.ceil(rows / update)
        warmup = round(flags.proportion("--warmup-ratio") * updates)
        flags.take("--warmup-ratio")
        schedule = Flags({"--total-num-update": (str(updates),), "--warmup-updates": (str(warmup),)})
        flags = schedule | flags | self.devices | self.user.take(*self.devices)
        flags.set("--seed", args.seed)
        settings = {"task": getattr(args, "task", ""), "point": point, "seed": args.seed}
        words = {"start": [str(args.checkpoint.resolve())], **more.pop("words", {})}
        words["evaluation"] = [
            *words.get("evaluation", []),
            *(["--device", "cpu"] if "--cpu" in flags else []),
        ]

        def finished() -> str:
            if (result := read_json(args.save / RESULT)) is None:
                return ""
            metric, metrics = result["metric"], result["metrics"]
            values = ", ".join(f"{split} {metric} {found.get(metric)}" for split, found in metrics.items())
            return f"finished before: {args.save / RESULT}, {values}"

        return Training(
            save=args.save,
            data=str(data),
            flags=flags,
            words=words,
            settings=settings | more.pop("settings", {}),
            inputs={"checkpoint": [args.checkpoint], "data": files} | more.pop("inputs", {}),
            finished=finished,
            show=args.print,
            **more,
        )


def glue(script: str, words: list[str]) -> Training:
    """On a task of GLUE (tables 6 and 11).

    Raises:
        UserError: for what cannot be trained; and so the others.
    """
    from lib.glue.tasks import task_named

    parser = script_parser(script, one_worker=True)
    add = parser.add_argument
    add("--recipe", choices=("table11", "table6"), default="table11", help="default: %(default)s")
    add("--init-from", type=Path, metavar="FILE", help="a checkpoint fine-tuned on MNLI to start from")
    add("--test", action="store_true", help="predict the test sets too, for gluebenchmark.com")
    add("--keep-checkpoint", action="store_true", help="keep SAVE/checkpoint_best.pt")
    found = FineTuning(parser, words)
    args, pretrained, task = found.args, found.pretrained, task_named(found.args.task)
    args.task, data = task.name, args.data / f"{task.name}-bin"
    dictionary, valid = data / "input0" / "dict.txt", data / "input0" / "valid.idx"
    for path in (dictionary, valid):
        if not path.is_file():
            raise UserError(f"{path} does not exist: give a folder that scripts/prepare_glue.py made")
    check_dictionary(pretrained, dictionary, "prepare GLUE with the dict.txt of its pre-training")
    if args.init_from:
        check_mnli(read_checkpoint(args.init_from), pretrained)

    # the head is named after the task, so that MNLI's is left behind for RTE
    head = task.name.lower().replace("-", "")
    flags = Flags.of(f"--task glue --classification-head-name {head} --glue-metric {task.metric}".split())
    if pretrained.repeat > 1:
        flags |= Flags.of(f"--task repeated_sentence_prediction --repeat-times {pretrained.repeat}".split())
    if task.regression:
        flags.set("--regression-target")
    flags |= Flags.of(f"--num-classes {task.outputs} --init-token {BOS} --separator-token {EOS}".split())
    splits = [split for split in task.valid_splits if (data / "input0" / f"{split}.idx").is_file()]
    flags.set("--valid-subset", ",".join(splits))
    flags |= pretrained.flags
    flags.set("--max-positions", found.positions())
    paths = (path for path in RECIPES.glob(f"{args.recipe}*") if head in path.stem.split("-"))
    grid = Flags.read(next(paths, RECIPES / "table6.flags"))  # table 6 is one point
    grid = Flags({name: values[:1] for name, values in grid.items()})
    flags |= Flags.read(RECIPES / "recipe.flags") | grid | found.user

    from fairseq.data import data_utils  # takes seconds

    kept = {name: getattr(args, name) for name in ("test", "keep_checkpoint")}
    options = [f"--{name.replace('_', '-')}" for name, given in kept.items() if given]
    start = str((args.init_from or args.checkpoint).resolve())
    return found.training(
        data,
        flags,
        len(data_utils.load_indexed_dataset(str(data / "input0" / "train"), None)),
        sorted(path for path in data.rglob("*") if path.is_file()),
        words={"start": [start], "evaluation": options},
        settings=kept,
        inputs={"init_from": [args.init_from]} if args.init_from else {},
    )


def check_mnli(mnli: Pretrained, pretrained: Pretrained) -> None:
    """Raises UserError unless a model was fine-tuned on MNLI, from a pre-training of the other's kind."""
    if mnli.classes != 3:
        raise UserError(
            f"--init-from {mnli.path} was trained by {mnli.task} with {mnli.classes} classes, not on MNLI, "
            "which has 3: give the checkpoint_best.pt of finetune_glue.sh MNLI ... --keep-checkpoint"
        )
    sizes = [Flags(model.flags, **{"--max-positions": ()}) for model in (mnli, pretrained)]
    if sizes[0] != sizes[1] or mnli.entries != pretrained.entries or mnli.repeat != pretrained.repeat:
        raise UserError(f"--init-from {mnli.path} is a model of other sizes than {pretrained.path}")
    if mnli.dictionary:
        check_dictionary(pretrained, mnli.dictionary, "both have to be of one pre-training")


def squad(script: str, words: list[str]) -> Training:
    """On SQuAD 2.0 (table 11)."""
    found = FineTuning(script_parser(script), words, several_gpus=True)
    args, pretrained = found.args, found.pretrained
    args.task, dictionary = "squad2", args.data / "dict.txt"
    files = [args.data / name for name in ("dict.txt", "train.npz", "valid.npz")]
    for path in files:
        if not path.is_file():
            raise UserError(f"{path} does not exist: DATA is a folder made by prepare_squad.py")
    hint = "prepare the data with scripts/prepare_squad.py --dictionary, the dict.txt of its pre-training"
    check_dictionary(pretrained, dictionary, hint)
    recipe = Flags.read(RECIPES / "squad2.flags")
    windows = window_flags(recipe, found.user, pretrained)
    window = windows.whole("--window-tokens")
    if pretrained.expands and window > pretrained.max_positions:
        raise UserError(
            f"--window-tokens {window} is more than the checkpoint's {pretrained.max_positions} positions"
        )
    flags = Flags(pretrained.flags)
    flags.set("--max-positions", found.positions(window))
    flags |= recipe | found.user | windows
    if found.workers > 1:  # the LM head and the transitions are not computed
        flags.set("--find-unused-parameters")
    return found.training(args.data.resolve(), flags, labelled_windows(args.data, windows), files)


def window_flags(recipe: Flags, user: Flags, pretrained: Pretrained) -> Flags:
    """The windows: those asked for, else the recipe's, cut to the length of the pre-training; their stride is
    a quarter of that."""
    flags = (recipe | user).take(*WINDOW)
    if "--window-tokens" not in user:
        trained = pretrained.tokens_per_sample or math.inf
        flags.set("--window-tokens", min(recipe.whole("--window-tokens"), trained))
    if "--doc-stride" not in user:
        flags.set("--doc-stride", max(1, flags.whole("--window-tokens") // 4))
    return flags


def labelled_windows(data: Path, flags: Flags) -> int:
    """Windows of the training set that are trained on."""
    from fs_plugins.data.squad import load_split
    from fs_plugins.data.squad_windows import NO_LABEL, WindowSizes, make_windows

    windows = make_windows(load_split(str(data), "train"), WindowSizes(*map(flags.whole, WINDOW)))
    return int((windows.labels[:, 0] != NO_LABEL).sum())


def moleculenet(script: str, words: list[str]) -> Training:
    """On a set of MoleculeNet, or one's own molecules and properties (table 8)."""
    parser = script_parser(script, one_worker=True)
    parser.add_argument("--scratch", action="store_true", help="the same architecture, untrained")
    found = FineTuning(parser, words)
    args, pretrained, folder = found.args, found.pretrained, RECIPES / "table8"
    args.task, dictionary = args.dataset, args.data / "dict.txt"
    recipe = Flags.read(folder.with_suffix(".flags")) | Flags.named("dataset", args.dataset, folder)
    from fs_plugins.data.property_info import FILE, read_folder  # takes seconds

    about = read_folder(args.data)
    check_labels(args.data, about)
    check_dictionary(pretrained, dictionary, "prepare the data with the dict.txt of its pre-training")
    regression, other = about["kind"] == "regression", about["dataset"]
    flags = pretrained.flags | recipe
    flags.set("--best-checkpoint-metric", "rmse" if regression else "auc")
    if not regression:
        flags.set("--maximize-best-checkpoint-metric")
    note = f"warning: {args.data} was prepared as {other}, and is fine-tuned with the hyper-parameters of "
    known = other != args.dataset and (folder / f"{other}.flags").exists()
    return found.training(
        args.data.resolve(),
        flags | found.user,
        about["sizes"]["train"]["molecules"],
        [args.data / FILE],  # has the hashes of the data
        words={"start": [] if args.scratch else ["--finetune-from-model", str(args.checkpoint.resolve())]},
        settings={"scratch": args.scratch},
        notes=[note + args.dataset] if known else [],
    )


def check_labels(data: Path, about: dict) -> None:
    """Raises UserError if nothing can be learned from a set, or no best epoch be chosen."""
    import numpy as np

    from fs_plugins.data.property_info import one_class_only

    for split in ("train", "valid"):
        labels = np.load(data / f"{split}.labels.npy")
        regression = about["kind"] == "regression"
        if (np.isnan(labels).all(0) if regression else one_class_only(labels)).all():
            what = "labels" if regression else "labels of both classes"
            raise UserError(f"no property has {what} in {split} of {data}: split it otherwise")


def main() -> int:
    kind = sys.argv[1]
    script = f"finetune_{kind}.sh"
    resolve = {"glue": glue, "squad": squad, "moleculenet": moleculenet}[kind]
    return launch(script, partial(resolve, script), sys.argv[2:])


if __name__ == "__main__":
    sys.exit(run_main(main))
