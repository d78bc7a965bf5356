"""Fine-tuning on a benchmark: what scripts/finetune_*.sh run."""

import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from lib.command_line import Flags, UserError, count, counted, script
from lib.files import files_below
from lib.recipes import FLAGS, benchmark, files_of
from lib.run.checkpoints import check_dictionary, read_checkpoint
from lib.run.folder import IMPORTED
from lib.run.launch import Training, arguments, as_bash, devices, drop_schedule

from fs_plugins.checkpoint_settings import is_pretraining
from fs_plugins.data.vocabulary import dictionary_file

REFUSED = {
    "--save-dir": "is SAVE",
    "--finetune-from-model": "is CHECKPOINT",
    **dict.fromkeys(("--restore-file", "--continue-once"), "is the script's: a run in SAVE is resumed"),
    "--num-classes": "is that of the task",
    **dict.fromkeys(
        ("--no-save", "--disable-validation", "--save-interval"), "leaves no best epoch to score"
    ),
    **dict.fromkeys(("--max-sentences", "--max-tokens"), "stands beside --batch-size: give that alone"),
    "--distributed-world-size": "is --gpus",
}
ARGUMENTS = {"glue": ["task"], "moleculenet": ["dataset"]}


def add_options(name: str, add: Callable) -> None:
    """Adds the options besides those of all trainings."""
    add("--seed", type=count, default=1, metavar="N", help="default: %(default)s")
    benchmark(name).add_options(add)


def resolve(name: str, words: list[str]) -> Training:
    """Returns one fine-tuning on a benchmark, which is finished when it has its result. Raises UserError for
    what cannot be trained, or an update that cannot be split over GPUs and --update-freq."""
    names = [*ARGUMENTS.get(name, ()), "checkpoint", "data", "save"]
    args = arguments(f"finetune_{name}.sh", names, words, partial(add_options, name), REFUSED)
    workers, device_flags = devices(args, one_gpu=name != "squad")
    pretrained = read_checkpoint(args.checkpoint)
    task, of_mnli = pretrained.task._name, pretrained.task.get("num_classes") == 3  # other tasks: 1 or 2
    # otherwise its scores would pass for the pre-training's
    if not (is_pretraining(task) or (name == "glue" and of_mnli)):
        raise UserError(f"{args.checkpoint} was fine-tuned (--task {task}): give its pre-training")
    recipe = benchmark(name).recipe(args, pretrained)
    about = {"evaluation": recipe.evaluation, "settings": recipe.settings, "metrics": recipe.metrics}
    about |= {"inputs": recipe.inputs, "note": recipe.note}
    about |= {"keep_best": not getattr(args, "drop_checkpoints", False)}
    training = Training(args, str(recipe.data), recipe.flags, **about)
    rows = recipe.rows
    training.dictionary = dictionary_file(Path(training.data))
    hint = f"prepare the data by scripts/prepare_{name}.py with the dict.txt of its pre-training"
    check_dictionary(pretrained, training.dictionary, hint)
    files = files_below(Path(training.data))
    training.inputs = {"data": files, "checkpoint": files_of(args.checkpoint)} | training.inputs

    flags = training.flags
    point = {name: flags.value(flag) for name, flag in FLAGS.items()}
    update, steps = flags.whole("--batch-size"), flags.whole("--update-freq", 1)
    if update % (steps * workers):
        of = f"{counted(workers, 'GPU')} x --update-freq {steps}"
        raise UserError(f"--batch-size {update} is no multiple of {of}")
    epochs = flags.whole("--max-epoch")
    updates = epochs * math.ceil(rows / update)
    if name != "squad" and not {"--save-interval-updates", "--max-update"} & flags.keys():  # validate too
        for limit, most in (("--validate-interval", epochs), ("--validate-after-updates", updates - 1)):
            if limit in flags and flags.whole(limit) > most:
                raise UserError(f"{limit} {flags.value(limit)}: no epoch is validated: give at most {most}")
    warmup = round(flags.proportion("--warmup-ratio") * updates)
    flags.pop_all("--warmup-ratio")
    if not getattr(args, "scratch", False):  # read only if SAVE has no checkpoint to resume from
        training.start = start = args.checkpoint
        flags.set("--finetune-from-model", (args.save / IMPORTED if start.is_dir() else start).resolve())
    if workers > 1:  # the LM head and the transitions are not computed
        flags.set("--find-unused-parameters")

    schedule = Flags.of(f"--total-num-update {updates} --warmup-updates {warmup}")
    training.flags = schedule | flags
    drop_schedule(training.flags, args.user | (schedule if "--warmup-ratio" in args.user else {}))
    training.flags |= Flags.of(f"--batch-size {update // (steps * workers)} --update-freq {steps}")
    training.flags = training.flags | device_flags | args.user.only(*device_flags)  # the user wins
    training.flags.set("--seed", args.seed)
    settings = {"point": point, "seed": args.seed}
    training.settings = settings | training.settings
    training.evaluation = [*training.evaluation, *(["--device", "cpu"] if "--cpu" in training.flags else [])]
    return training


@script
def main() -> int:
    print(as_bash(resolve(sys.argv[1], sys.argv[2:])))
