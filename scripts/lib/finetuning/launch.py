"""Fine-tuning on GLUE, SQuAD 2.0 and MoleculeNet (tables 1 and 3): what scripts/finetune_*.sh run."""

import argparse
import math
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fairseq.data import data_utils
from lib.command_line import Flags, UserError, count, script
from lib.files import CONFIGS, RESULT, digits, read_json, reading
from lib.finetuning.glue.tasks import FLAGS, GRIDS, head_of, points_of, task_named
from lib.run.checkpoints import Pretrained, check_dictionary, read_checkpoint
from lib.run.launch import BEST, IMPORTED, LESS_IS_BETTER, MAXIMIZE, Training, arguments, devices, launch

from fs_plugins.checkpoint_settings import is_pretraining
from fs_plugins.finetuning.moleculenet.data import FILE, read_folder
from fs_plugins.finetuning.moleculenet.metrics import metrics_of
from fs_plugins.finetuning.outputs import PropertyInfo
from fs_plugins.finetuning.squad.data import load_split
from fs_plugins.finetuning.squad.windows import NO_LABEL, WindowSizes, make_windows

REFUSED = {
    "--save-dir": "is SAVE",
    "--finetune-from-model": "is CHECKPOINT",
    **dict.fromkeys(("--restore-file", "--continue-once"), "is the script's: a run in SAVE is resumed"),
    "--num-classes": "is that of the task",
    **dict.fromkeys(("--max-sentences", "--max-tokens"), "stands beside --batch-size: give that alone"),
}
LONGEST = 512  # tokens that every model reads at least, however short the samples of its pre-training were
BOS, EOS = 0, 2  # <s> and </s> of every fairseq dictionary
RECIPES = CONFIGS / "finetune"
WINDOW = ("--window-tokens", "--doc-stride", "--max-question-tokens", "--max-answer-tokens")


def add_options(benchmark: str, add: Callable) -> None:
    """Adds the options besides those of all trainings."""
    add("--seed", type=count, default=1, metavar="N", help="default: %(default)s")
    if benchmark == "glue":
        add("--recipe", choices=GRIDS, default=GRIDS[0], help="default: %(default)s")
        start = "a checkpoint fine-tuned on MNLI to start from"
        add("--init-from", type=Path, metavar="FILE", help=start)
        add("--test", action="store_true", help="predict the test sets too, for gluebenchmark.com")
        kept = "keep scores and predictions only, as a grid search does"
        add("--drop-checkpoints", action="store_true", help=kept)
    elif benchmark == "moleculenet":
        add("--scratch", action="store_true", help="the same architecture, untrained")


def resolve(benchmark: str, words: list[str]) -> Training:
    """Returns one fine-tuning (glue, squad or moleculenet), which is finished when it has its result. Raises
    UserError for what cannot be trained, or an update that cannot be split over GPUs and --update-freq."""
    names = {
        "checkpoint": "of a pre-training, or a folder for transformers",
        "data": f"made by prepare_{benchmark}.py",
        "save": "the folder for checkpoints, log and result",
    }
    if benchmark != "squad":
        first = {"glue": ("task", "such as RTE"), "moleculenet": ("dataset", "such as bbbp, or your own")}
        names = dict([first[benchmark]]) | names
    about = f"Fine-tunes a model on {'SQuAD 2.0' if benchmark == 'squad' else 'one task of ' + benchmark}."
    about += " Its other flags are fairseq-train's, and --warmup-ratio, a share of the updates."
    script_name, add = f"finetune_{benchmark}.sh", partial(add_options, benchmark)
    args = arguments(script_name, about, names, words, add, REFUSED)
    workers, device_flags = devices(args, one_gpu=benchmark != "squad")
    pretrained = read_checkpoint(args.checkpoint)
    if not is_pretraining(task := pretrained.task._name):  # its scores would pass for the pre-training's
        raise UserError(f"{args.checkpoint} was fine-tuned (--task {task}): give its pre-training")
    training, rows = {"glue": glue, "squad": squad, "moleculenet": moleculenet}[benchmark](args, pretrained)

    flags = training.flags
    point = {name: flags.value(flag) for name, flag in FLAGS.items()}
    update, steps = flags.whole("--batch-size"), flags.whole("--update-freq", 1)
    if update % (steps * workers):
        raise UserError(f"--batch-size {update} is no multiple of {workers} GPUs x --update-freq {steps}")
    updates = flags.whole("--max-epoch") * math.ceil(rows / update)
    warmup = round(flags.proportion("--warmup-ratio") * updates)
    flags.take("--warmup-ratio")
    if not getattr(args, "scratch", False):  # read only if SAVE has no checkpoint to resume from
        start = getattr(args, "init_from", None) or args.checkpoint
        if start.is_dir():
            training.imported = start
            start = args.save / IMPORTED
        flags.set("--finetune-from-model", start.resolve())
    if workers > 1:  # the LM head and the transitions are not computed
        flags.set("--find-unused-parameters")

    training.flags = Flags.of(f"--total-num-update {updates} --warmup-updates {warmup}") | flags
    training.flags |= Flags.of(f"--batch-size {update // (steps * workers)} --update-freq {steps}")
    training.flags = training.flags | device_flags | args.user.only(*device_flags)  # the user wins
    training.flags.set("--seed", args.seed)
    settings = {"task": args.task, "point": point, "seed": args.seed}
    training.settings = settings | training.settings
    training.inputs["checkpoint"] = files_of(args.checkpoint)
    training.evaluation += ["--device", "cpu"] if "--cpu" in training.flags else []
    training.finished = lambda: finished(args.save / RESULT)
    return training


def files_of(model: Path) -> list[Path]:
    """Returns a checkpoint, or what decides in a folder for transformers."""
    return [model / "config.json", *sorted(model.glob("*.safetensors"))] if model.is_dir() else [model]


def finished(path: Path) -> str:
    """Returns what a result says; "" if there is none."""
    if (result := read_json(path)) is None:
        return ""
    with reading(path):
        metric, metrics = result["metric"], result["metrics"].items()
        values = ", ".join(f"{split} {metric} {digits(scores.get(metric))}" for split, scores in metrics)
    kept = path.with_name("checkpoint_best.pt").is_file()
    again = "" if kept else f"; its checkpoints were dropped: to train it again, remove {path}"
    return f"finished before: {path}, {values}{again}"


def positions(pretrained: Pretrained, least: int = LONGEST) -> Flags:
    """Returns --max-positions. Rotary positions have no weights: an MLM may have more than its pre-training
    had, else it would lose what an ExLM, whose positions count its states, gets to read."""
    own = pretrained.max_positions
    most = own if pretrained.expands else max(own, least * pretrained.repeat)
    return Flags({"--max-positions": (str(most),)})


def glue(args: argparse.Namespace, pretrained: Pretrained) -> tuple[Training, int]:
    """Returns, for a task of GLUE (tables 6 and 11), the training, whose --batch-size is that of an update
    and whose --warmup-ratio becomes updates, and its examples."""
    task = task_named(args.task)
    args.task, data = task.name, Path(args.data, f"{task.name}-bin")
    dictionary = data / "input0" / "dict.txt"
    check_dictionary(pretrained, dictionary, "prepare GLUE with the dict.txt of its pre-training")
    if args.init_from:
        check_mnli(read_checkpoint(args.init_from), pretrained)

    flags = Flags.of(
        f"--task glue --classification-head-name {head_of(task.name)} --metrics {','.join(task.metrics)}"
    )
    if pretrained.repeat > 1:
        flags |= Flags.of(f"--task repeated_sentence_prediction --repeat-times {pretrained.repeat}")
    if task.regression:
        flags.set("--regression-target")
    splits = [split for split in task.splits if (data / "input0" / f"{split}.idx").is_file()]
    valid, tests = ([s for s in splits if s.startswith(part)] for part in ("valid", "test"))
    if args.test and not tests:
        raise UserError(f"--test: {data} has no test set")
    flags |= Flags.of(f"--num-classes {task.outputs} --init-token {BOS} --separator-token {EOS}")
    flags |= Flags.of(f"--valid-subset {','.join(valid)}") | pretrained.flags | positions(pretrained)
    point = points_of(task.name, args.recipe)[0].flags

    evaluated = [*valid, *(tests if args.test else ())]
    training = Training(
        args,
        str(data),
        flags | Flags.read(RECIPES / "recipe.flags") | point | args.user,
        dictionary=dictionary,
        evaluation=["--split", *evaluated],
        keep_best=not args.drop_checkpoints,
        settings={"test": args.test},
        inputs={"data": sorted(path for path in data.rglob("*") if path.is_file())},
    )
    training.inputs |= {"init_from": files_of(args.init_from)} if args.init_from else {}
    return training, len(data_utils.load_indexed_dataset(str(data / "input0" / "train"), None))


def check_mnli(mnli: Pretrained, pretrained: Pretrained) -> None:
    """Raises UserError unless a model was fine-tuned on MNLI, from a pre-training like the other's."""
    if (classes := mnli.task.get("num_classes")) != 3:
        raise UserError(
            f"--init-from {mnli.path} was trained by {mnli.task._name} with {classes} classes, not on MNLI, "
            "which has 3: give the checkpoint_best.pt of finetune_glue.sh MNLI"
        )
    if mnli.dictionary:
        check_dictionary(pretrained, mnli.dictionary, "both have to be of one pre-training")


def squad(args: argparse.Namespace, pretrained: Pretrained) -> tuple[Training, int]:
    """Returns what :func:`glue` does, for SQuAD 2.0 (table 11)."""
    args.task, data = "squad2", Path(args.data).resolve()
    files = [data / name for name in ("dict.txt", "train.npz", "valid.npz")]
    hint = "prepare the data with scripts/prepare_squad.py --dictionary, the dict.txt of its pre-training"
    check_dictionary(pretrained, files[0], hint)
    recipe = Flags.read(RECIPES / "squad2.flags")
    flags = recipe | args.user
    if "--window-tokens" not in args.user and (sample := pretrained.task.get("tokens_per_sample")):
        flags.set("--window-tokens", min(recipe.whole("--window-tokens"), sample))
    window = flags.whole("--window-tokens")
    if "--doc-stride" not in args.user:
        flags.set("--doc-stride", max(1, window // 4))
    for name, most in (("--max-question-tokens", window // 2), ("--max-answer-tokens", window // 4)):
        if name not in args.user:
            flags.set(name, max(1, min(recipe.whole(name), most)))
    flags = pretrained.flags | positions(pretrained, window) | flags
    windows = make_windows(load_split(str(data), "train"), WindowSizes(*map(flags.whole, WINDOW)))
    if not (trained_on := int((windows.labels[:, 0] != NO_LABEL).sum())):
        raise UserError(f"no question of {files[1]} can be learned: the answers are not in their contexts")
    return Training(args, str(data), flags, dictionary=files[0], inputs={"data": files}), trained_on


def moleculenet(args: argparse.Namespace, pretrained: Pretrained) -> tuple[Training, int]:
    """Returns what :func:`glue` does, for a set of MoleculeNet (table 8), or one's own molecules."""
    args.task, data, table = args.dataset, Path(args.data).resolve(), RECIPES / "table8"
    recipe, own = Flags.read(table.with_suffix(".flags")), {path.stem: path for path in table.glob("*.flags")}
    if args.task in own:
        recipe |= Flags.read(own[args.task])
    about = read_folder(data)
    with reading(data / FILE):
        info = PropertyInfo.from_dict(about)
        if not {"train", "valid"} <= {*about["sizes"]}:
            raise UserError(f"{data} is a test set alone: give it to evaluate.py, and here what to train on")
        rows = int(about["sizes"]["train"]["molecules"])
    check_dictionary(pretrained, data / "dict.txt", "prepare the data with the dict.txt of its pre-training")
    if pretrained.repeat > 1:
        recipe.set("--repeat-times", pretrained.repeat)
    metrics = (*metrics_of(info.kind, len(info.names)), "loss")
    best = f"{BEST} {metrics[0]}" + ("" if metrics[0] in LESS_IS_BETTER else f" {MAXIMIZE}")
    training = Training(
        args,
        str(data),
        pretrained.flags | recipe | Flags.of(best) | args.user,
        dictionary=data / "dict.txt",
        settings={"scratch": args.scratch},
        metrics=metrics,
        inputs={"data": sorted(path for path in data.iterdir() if path.is_file())},
        evaluation=[] if "test" in about["sizes"] else ["--split", "valid"],
    )
    if args.task not in own:
        known = ", ".join(sorted(own))
        training.note = f"default hyper-parameters, as '{args.task}' is not a set of table 8 ({known})"
    return training, rows


@script
def main() -> int:
    benchmark = sys.argv[1]
    return launch(f"finetune_{benchmark}.sh", partial(resolve, benchmark), sys.argv[2:])
