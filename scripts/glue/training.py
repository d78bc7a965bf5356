"""A fine-tuning on GLUE as flags of fairseq-train."""

from __future__ import annotations

import math
from pathlib import Path

from experiments.folder import ROOT, read_flags
from finetuning.checkpoints import Pretrained, check_dictionary, read_symbols

from glue.files import GlueError
from glue.grids import CONFIGS, FLAGS, Point
from glue.tasks import REGRESSION, Task

BOS, EOS = 0, 2  # <s> and </s> of every fairseq dictionary


OTHER_DICTIONARY = "prepare GLUE with the dict.txt of its pre-training"


def check_data(pretrained: Pretrained, data: Path) -> None:
    """Raises ValueError unless the dictionary of TASK-bin is the checkpoint's."""
    dictionary = data / "input0" / "dict.txt"
    if not dictionary.is_file():
        raise GlueError(f"there is no {dictionary}: give a folder that scripts/prepare_glue.py made")
    check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY)


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


def updates_of(sentences: int, point: Point) -> tuple[int, int]:
    """(updates in all, those of warm-up) of a fine-tuning."""
    updates = int(point.epochs) * math.ceil(sentences / int(point.batch))
    return updates, round(float(point.warmup) * updates)


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
        extra: more flags; they win.

    Raises:
        GlueError: if there is no training or validation set.
    """
    valid = [split for split in task.valid_splits if (data / "input0" / f"{split}.idx").is_file()]
    if not valid:
        raise GlueError(f"{data} has no valid set: give a folder that scripts/prepare_glue.py made")
    updates, warmup = updates_of(sentences_in(data, "train"), point)
    kind = ["sentence_prediction"]
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
        *read_flags(CONFIGS / "recipe.flags"),
        *("--lr", point.lr, "--batch-size", point.batch, "--max-epoch", point.epochs),
        *("--total-num-update", str(updates), "--warmup-updates", str(warmup)),
        *("--distributed-world-size", "1", *(["--cpu", "--num-workers", "0"] if cpu else ["--fp16"])),
        *extra,
    ]
