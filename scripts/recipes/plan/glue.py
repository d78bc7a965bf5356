"""Fine-tuning on a task of GLUE (tables 6 and 11)."""

from __future__ import annotations

import json
from pathlib import Path

from recipes.checkpoints import (
    CLASSIFICATION_TASKS,
    Pretrained,
    check_dictionary,
    check_not_finetuned,
    read_checkpoint,
)
from recipes.command_line import RecipeError
from recipes.dictionaries import read_symbols
from recipes.flags import Flags, check_recipe
from recipes.folders import CONFIGS
from recipes.glue.evaluate import RESULT, scores_text
from recipes.glue.grids import FLAGS, GRIDS, points_of
from recipes.glue.tasks import REGRESSION, TASKS, Task, task_named
from recipes.plan import finetuning
from recipes.plan.plan import Plan, override

BOS, EOS = 0, 2  # <s> and </s> of every fairseq dictionary
OTHER_DICTIONARY = "prepare GLUE with the dict.txt of its pre-training"


def plan(program: str, words: list[str]) -> Plan:
    """The plan of one fine-tuning.

    Raises:
        RecipeError: for what cannot be trained.
    """
    request = finetuning.read_request(parser(program), words)
    args, task = request.args, task_named(request.args.task)
    data = args.data / f"{task.name}-bin"
    pretrained = read_start(args.checkpoint, args.init_from)
    check_data(pretrained, data)
    point, *_ = points_of(task, args.recipe)
    recipe = Flags.read(CONFIGS / "finetune" / "recipe.flags")
    recipe |= point.flags
    model = Flags.of(pretrained.flags)
    model.set("--max-positions", finetuning.positions(pretrained))
    groups = override(
        {"task": task_flags(task, pretrained, data), "model": model, "recipe": recipe}, request.user
    )
    recipe = groups["recipe"]
    check_recipe(recipe)
    chosen = {name: recipe.value(flag) for flag, name in FLAGS.items()}
    finetuning.batch_and_schedule(groups, sentences_in(data, "train"))
    read = {"data": sorted(path for path in data.rglob("*") if path.is_file())}
    if args.init_from:
        read["init_from"] = [args.init_from]
    start = str((args.init_from or args.checkpoint).resolve())
    evaluation = ["--test"] if args.test else []
    evaluation += ["--keep-checkpoint"] if args.keep_checkpoint else []
    asked = {"task": task.name, "point": chosen}
    found = finetuning.plan_of(request, data, groups, asked, read, start, evaluation)
    check_end(found, args)
    return found


def parser(program: str):
    result = finetuning.finetuning_parser(
        program,
        "task",
        one_worker=True,
        what="Fine-tunes a pre-trained model on a GLUE task and scores it on the development set.",
        details=f"  TASK        {', '.join(TASKS)}",
        maker="prepare_glue.py: the one with TASK-bin",
        configs="finetune/",
        batch="in as many steps as --update-freq says",
    )
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
        raise RecipeError(f"{data} has no valid set: give a folder that scripts/prepare_glue.py made")
    flags = Flags()
    flags.set("--task", "repeated_sentence_prediction" if pretrained.repeat > 1 else "glue")
    if pretrained.repeat > 1:
        flags.set("--repeat-times", pretrained.repeat)
    flags.set("--glue-metric", task.metric)
    flags.set("--num-classes", task.outputs)
    if task.kind == REGRESSION:
        flags.set("--regression-target")
    flags.set("--classification-head-name", task.name.lower().replace("-", ""))
    flags.set("--init-token", BOS)
    flags.set("--separator-token", EOS)
    flags.set("--valid-subset", ",".join(valid))
    return flags


def read_start(checkpoint: Path, init_from: Path | None) -> Pretrained:
    """The pre-trained model of a fine-tuning.

    Args:
        init_from: a model of the same pre-training's kind, fine-tuned on MNLI, to start from; or None.

    Raises:
        RecipeError: if one of them is not what it is given for.
    """
    pretrained = read_checkpoint(checkpoint)
    check_not_finetuned(pretrained, ", and one of MNLI by --init-from")
    if init_from is None:
        return pretrained
    other = read_checkpoint(init_from)
    classes = len(TASKS["MNLI"].labels)
    if other.task not in CLASSIFICATION_TASKS or other.classes != classes:
        outputs = (
            f"with {other.classes} classes" if other.task in CLASSIFICATION_TASKS else f"by {other.task}"
        )
        raise RecipeError(
            f"--init-from {init_from} was trained {outputs}, not on MNLI, which has {classes}: give the "
            "checkpoint_best.pt of finetune_glue.sh MNLI ... --keep-checkpoint"
        )
    if _kind(other) != _kind(pretrained):
        raise RecipeError(f"--init-from {init_from} is a model of other sizes than {checkpoint}")
    if other.symbols is not None and pretrained.symbols is not None:
        check_dictionary(
            pretrained, other.symbols, Path(other.dictionary), "both have to be of one pre-training"
        )
    return pretrained


def _kind(model: Pretrained) -> tuple:
    """What a model and one that was fine-tuned from it have in common."""
    flags = Flags.of(model.flags)
    if "--max-positions" in flags:
        flags.set("--max-positions", finetuning.positions(model))
    return flags, model.repeat, model.entries


def check_data(pretrained: Pretrained, data: Path) -> None:
    """Raises RecipeError unless TASK-bin can be read, and its dictionary is the checkpoint's."""
    dictionary = data / "input0" / "dict.txt"
    if not dictionary.is_file():
        raise RecipeError(f"{dictionary} does not exist: give a folder that scripts/prepare_glue.py made")
    check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY)


def sentences_in(data: Path, split: str) -> int:
    """Sentences of a split of TASK-bin.

    Raises:
        RecipeError: if it does not exist.
    """
    from fairseq.data import data_utils

    dataset = data_utils.load_indexed_dataset(str(data / "input0" / split), None)
    if dataset is None:
        raise RecipeError(f"{data} has no {split} set: give a folder that scripts/prepare_glue.py made")
    return len(dataset)


def check_end(found: Plan, args) -> None:
    """Sets ``finished``; raises RecipeError if a finished run lacks what is asked for."""
    result = args.save / RESULT
    said = scores_text(json.loads(result.read_text())) if result.exists() else ""
    finetuning.check_finished(found, RESULT, said)
    lacking = []
    if args.test and not any((args.save / "submission").glob("*.tsv")):
        lacking.append("--test")
    if args.keep_checkpoint and not (args.save / "checkpoint_best.pt").exists():
        lacking.append("--keep-checkpoint")
    if found.finished and lacking:
        raise RecipeError(
            f"{args.save} was finished without {' and '.join(lacking)}, and its checkpoints are removed: "
            "choose another SAVE"
        )
