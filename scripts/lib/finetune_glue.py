"""Fine-tuning on a task of GLUE (tables 6 and 11): what scripts/finetune_glue.sh runs."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from lib.checkpoints import (
    CLASSIFICATION_TASKS,
    Pretrained,
    check_dictionary,
    check_not_finetuned,
    read_checkpoint,
)
from lib.command_line import UserError, run_main
from lib.dictionaries import read_symbols
from lib.finetuning import finetuning_parser, positions, read_request, split_update, training
from lib.flags import Flags, check_recipe
from lib.folders import CONFIGS
from lib.glue.grids import GRIDS, points_of
from lib.glue.tasks import REGRESSION, TASKS, Task, task_named
from lib.launch import Training, launch

SCRIPT = "finetune_glue.sh"
BOS, EOS = 0, 2  # <s> and </s> of every fairseq dictionary
OTHER_DICTIONARY = "prepare GLUE with the dict.txt of its pre-training"
MAKER = "give a folder that scripts/prepare_glue.py made"


def resolve(words: list[str]) -> Training:
    """One fine-tuning.

    Raises:
        UserError: for what cannot be trained.
    """
    request = read_request(parser(), words)
    args, task = request.args, task_named(request.args.task)
    data = args.data / f"{task.name}-bin"
    pretrained = read_start(args.checkpoint, args.init_from)
    dictionary = data / "input0" / "dict.txt"
    if not dictionary.is_file():
        raise UserError(f"{dictionary} does not exist: {MAKER}")
    check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY)
    point, *_ = points_of(task.name, args.recipe)
    flags = task_flags(task, pretrained, data) | Flags.of(pretrained.flags)
    flags.set("--max-positions", positions(pretrained))
    flags |= Flags.read(CONFIGS / "finetune" / "recipe.flags") | point.flags | request.user
    check_recipe(flags)
    inputs = {"data": sorted(path for path in data.rglob("*") if path.is_file())}
    inputs |= {"init_from": [args.init_from]} if args.init_from else {}
    evaluation = [flag for flag in ("--test", "--keep-checkpoint") if flag in words]

    start = [str((args.init_from or args.checkpoint).resolve())]
    return training(
        request,
        task.name,
        flags,
        split_update(flags),
        sentences_in(data, "train"),
        data=str(data),
        inputs=inputs,
        words={"start": start, "evaluation": evaluation},
        check_finished=lambda: check_complete(args),
    )


def parser() -> argparse.ArgumentParser:
    result = finetuning_parser(SCRIPT, one_worker=True)
    add = result.add_argument
    add("--recipe", choices=GRIDS, default="table11", help="defaults are the first values of its grid")
    add("--init-from", type=Path, metavar="FILE", help="a checkpoint fine-tuned on MNLI to start from")
    add("--test", action="store_true", help="predict the test sets too, for gluebenchmark.com")
    add("--keep-checkpoint", action="store_true", help="keep SAVE/checkpoint_best.pt")
    return result


def task_flags(task: Task, pretrained: Pretrained, data: Path) -> Flags:
    """fairseq's task and head. The head is named after the task, so that MNLI's is left behind for RTE."""
    valid = [split for split in task.valid_splits if (data / "input0" / f"{split}.idx").is_file()]
    if not valid:
        raise UserError(f"{data} has no valid set: {MAKER}")
    repeated = f"repeated_sentence_prediction --repeat-times {pretrained.repeat}"
    words = f"--task {repeated if pretrained.repeat > 1 else 'glue'} --glue-metric {task.metric}"
    words += " --regression-target" if task.kind == REGRESSION else ""
    words += f" --num-classes {task.outputs} --classification-head-name {task.name.lower().replace('-', '')}"
    words += f" --init-token {BOS} --separator-token {EOS} --valid-subset {','.join(valid)}"
    return Flags.of(words.split())


def read_start(checkpoint: Path, init_from: Path | None) -> Pretrained:
    """The pre-trained model of a fine-tuning.

    Args:
        init_from: a model of the same pre-training's kind, fine-tuned on MNLI, to start from; or None.

    Raises:
        UserError: if one of them is not what it is given for.
    """
    pretrained = read_checkpoint(checkpoint)
    check_not_finetuned(pretrained, ", and one of MNLI by --init-from")
    if init_from is None:
        return pretrained
    other, classes = read_checkpoint(init_from), len(TASKS["MNLI"].labels)
    if other.task not in CLASSIFICATION_TASKS or other.classes != classes:
        outputs = (
            f"with {other.classes} classes" if other.task in CLASSIFICATION_TASKS else f"by {other.task}"
        )
        raise UserError(
            f"--init-from {init_from} was trained {outputs}, not on MNLI, which has {classes}: give the "
            "checkpoint_best.pt of finetune_glue.sh MNLI ... --keep-checkpoint"
        )
    if _kind(other) != _kind(pretrained):
        raise UserError(f"--init-from {init_from} is a model of other sizes than {checkpoint}")
    if other.symbols is not None and pretrained.symbols is not None:
        way_out = "both have to be of one pre-training"
        check_dictionary(pretrained, other.symbols, Path(other.dictionary), way_out)
    return pretrained


def _kind(model: Pretrained) -> tuple:
    """What a model and one that was fine-tuned from it have in common."""
    flags = Flags.of(model.flags)
    if "--max-positions" in flags:
        flags.set("--max-positions", positions(model))
    return flags, model.repeat, model.entries


def sentences_in(data: Path, split: str) -> int:
    """Sentences of a split of TASK-bin.

    Raises:
        UserError: if it does not exist.
    """
    from fairseq.data import data_utils

    dataset = data_utils.load_indexed_dataset(str(data / "input0" / split), None)
    if dataset is None:
        raise UserError(f"{data} has no {split} set: {MAKER}")
    return len(dataset)


def check_complete(args: argparse.Namespace) -> None:
    """Raises UserError if a finished run lacks what is asked for."""
    lacking = []
    if args.test and not any((args.save / "submission").glob("*.tsv")):
        lacking.append("--test")
    if args.keep_checkpoint and not (args.save / "checkpoint_best.pt").exists():
        lacking.append("--keep-checkpoint")
    if lacking:
        raise UserError(
            f"{args.save} was finished without {' and '.join(lacking)}, and its checkpoints are removed: "
            "choose another SAVE"
        )


def main() -> int:
    return launch(SCRIPT, resolve, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run_main(main))
