"""A fine-tuning on GLUE as flags of fairseq-train."""

from __future__ import annotations

import math
from pathlib import Path

from recipes.checkpoints import (
    CLASSIFICATION_TASKS,
    Pretrained,
    check_dictionary,
    check_not_finetuned,
    read_checkpoint,
    read_symbols,
)
from recipes.glue.files import GlueError
from recipes.glue.grids import CONFIGS, FLAGS, Point
from recipes.glue.tasks import REGRESSION, TASKS, Task
from recipes.study.folder import ROOT, fingerprint, read_flags

BOS, EOS = 0, 2  # <s> and </s> of every fairseq dictionary


LONGEST = 512  # tokens of a row that an MLM reads at least, whatever its pre-training's samples were
OTHER_DICTIONARY = "prepare GLUE with the dict.txt of its pre-training"


def read_start(checkpoint: Path, init_from: Path | None) -> Pretrained:
    """The pre-trained model of a fine-tuning.

    Args:
        init_from: a model fine-tuned on MNLI to start from, of the same pre-training's kind; or None.

    Raises:
        ValueError: if one of them is not what it is given for.
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
        raise GlueError(
            f"--init-from {init_from} was trained {outputs}, not on MNLI, which has {classes}: give the "
            "checkpoint_best.pt of finetune_glue.sh MNLI ... --keep-checkpoint"
        )
    if kind_of(other) != kind_of(pretrained):
        raise GlueError(f"--init-from {init_from} is a model of other sizes than {checkpoint}")
    if other.symbols is not None and pretrained.symbols is not None:
        check_dictionary(
            pretrained, other.symbols, Path(other.dictionary), "both have to be of one pre-training"
        )
    return pretrained


def kind_of(model: Pretrained) -> tuple:
    """What a model and one that was fine-tuned from it have in common."""
    flags = list(model.flags)
    if "--max-positions" in flags:
        flags[flags.index("--max-positions") + 1] = str(positions_of(model))
    return flags, model.repeat, model.entries


def check_data(pretrained: Pretrained, data: Path) -> None:
    """Raises ValueError unless TASK-bin can be read, and its dictionary is the checkpoint's."""
    if ":" in str(data):
        raise GlueError(f"{data}: fairseq takes a folder without ':' in its name")
    dictionary = data / "input0" / "dict.txt"
    if not dictionary.is_file():
        raise GlueError(f"there is no {dictionary}: give a folder that scripts/prepare_glue.py made")
    check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY)


def data_fingerprint(data: Path) -> str:
    """Of all that is in TASK-bin: what was fine-tuned on other data is not taken for a result of these."""
    return fingerprint(sorted(path for path in data.rglob("*") if path.is_file()))


def file_state(path: Path) -> list:
    """A checkpoint as settings have it."""
    return [str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns]


def sentences_in(data: Path, split: str) -> int:
    """Sentences of a split of TASK-bin.

    Raises:
        GlueError: if it is not there.
    """
    from fairseq.data import data_utils

    dataset = data_utils.load_indexed_dataset(str(data / "input0" / split), None)
    if dataset is None:
        raise GlueError(f"{data} has no {split} set: give a folder that scripts/prepare_glue.py made")
    return len(dataset)


def positions_of(pretrained: Pretrained) -> int:
    """--max-positions. Rotary positions have no weights: an MLM may have more than its pre-training had, else
    it would lose what an ExLM, whose positions count its states, gets to read."""
    own = pretrained.max_positions or 0
    return own if pretrained.expands else max(own, LONGEST * pretrained.repeat)


def rows_cut(data: Path, split: str, flags: list[str]) -> tuple[int, int]:
    """(rows that are cut, tokens that they are cut to) in a split of TASK-bin, by fairseq-train's flags."""
    from fairseq.data import data_utils

    values = dict(zip(flags, flags[1:], strict=False))  # of a flag that is there twice, the last
    limit = int(values["--max-positions"]) // int(values.get("--repeat-times", 1))
    parts = sorted(data.glob("input[01]"))
    datasets = [
        data_utils.load_indexed_dataset(str(part / split), None) for part in parts
    ]  # sizes go with them
    lengths = sum(dataset.sizes for dataset in datasets) + len(parts)  # <s>, and </s> between two sentences
    return int((lengths > limit).sum()), limit


def updates_of(sentences: int, point: Point) -> tuple[int, int]:
    """(updates in all, those of warm-up) of a fine-tuning."""
    updates = int(point.epochs) * math.ceil(sentences / int(point.batch))
    return updates, round(float(point.warmup) * updates)


def steps_of(point: Point, extra: tuple[str, ...]) -> int:
    """Steps of an update: --update-freq among more flags, else 1.

    Raises:
        GlueError: if the batch, which is that of an update, cannot be split over them.
    """
    words = " ".join(extra).replace("--update-freq=", "--update-freq ").split()
    given = [value for flag, value in zip(words, [*words[1:], ""], strict=False) if flag == "--update-freq"]
    steps = given[-1] if given else "1"
    if not steps.isdigit() or int(steps) < 1 or int(point.batch) % int(steps):
        raise GlueError(
            f"--update-freq {steps}: the batch of {point.batch} sentences is that of an update, and cannot "
            "be split over so many steps"
        )
    return int(steps)


def head_of(task: Task) -> str:
    """The classification head's name: one a task, so that MNLI's is left behind on the way to RTE."""
    return task.name.lower().replace("-", "")


def finetuning_command(
    task: str,
    checkpoint: Path,
    data: Path,
    save: Path,
    point: Point,
    seed: int,
    cpu: bool,
    start: Path | None = None,
    extra: tuple[str, ...] = (),
) -> list[str]:
    """The command of finetune_glue.sh for one point, by which every grid fine-tunes.

    Args:
        data: the folder with TASK-bin.
        start: a checkpoint of MNLI to start from, or None for ``checkpoint``.
    """
    return [
        *("bash", str(ROOT / "scripts" / "finetune_glue.sh"), task, str(checkpoint), str(data), str(save)),
        *(word for flag, name in FLAGS.items() for word in (flag, getattr(point, name))),
        *("--seed", str(seed)),
        *(["--init-from", str(start)] if start else []),
        *(["--cpu"] if cpu else []),
        *extra,
    ]


def training_flags(
    task: Task,
    pretrained: Pretrained,
    start: Path,
    data: Path,
    save: Path,
    point: Point,
    seed: int,
    cpu: bool,
    extra: tuple[str, ...] = (),
) -> list[str]:
    """The flags of fairseq-train for a fine-tuning, which resumes where it was interrupted.

    Args:
        pretrained: what ``start`` is the model of.
        start: the checkpoint to start from; the pre-trained one, or that of MNLI.
        data: TASK-bin.
        extra: more flags; they win. With --update-freq the batch is split over its steps.

    Raises:
        GlueError: if there is no training or validation set, or the batch cannot be split.
    """
    valid = [split for split in task.valid_splits if (data / "input0" / f"{split}.idx").is_file()]
    if not valid:
        raise GlueError(f"{data} has no valid set: give a folder that scripts/prepare_glue.py made")
    updates, warmup = updates_of(sentences_in(data, "train"), point)
    step = int(point.batch) // steps_of(point, extra)  # sentences
    kind = ["glue"]
    if pretrained.repeat > 1:
        kind = ["repeated_sentence_prediction", "--repeat-times", str(pretrained.repeat)]
    return [
        *(str(data), "--user-dir", str(ROOT / "fs_plugins"), "--save-dir", str(save)),
        *("--finetune-from-model", str(start), "--task", *kind, "--criterion", "glue_prediction"),
        *("--glue-metric", task.metric, "--num-classes", str(task.outputs)),
        *(["--regression-target"] if task.kind == REGRESSION else []),
        *("--classification-head-name", head_of(task), "--init-token", str(BOS)),
        *("--separator-token", str(EOS), "--shorten-method", "truncate", "--find-unused-parameters"),
        *("--valid-subset", ",".join(valid), "--best-checkpoint-metric", "score"),
        *("--maximize-best-checkpoint-metric", "--no-epoch-checkpoints", "--log-format", "json"),
        *("--log-interval", "100", "--required-batch-size-multiple", "1", "--seed", str(seed)),
        *pretrained.flags,
        *("--max-positions", str(positions_of(pretrained))),
        *read_flags(CONFIGS / "recipe.flags"),
        *("--lr", point.lr, "--batch-size", str(step), "--max-epoch", point.epochs),
        *("--total-num-update", str(updates), "--warmup-updates", str(warmup)),
        *("--distributed-world-size", "1", *(["--cpu", "--num-workers", "0"] if cpu else ["--fp16"])),
        *extra,
    ]
