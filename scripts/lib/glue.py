"""GLUE (tables 3, 6 and 11): the eight tasks, their files, the recipe, and what is written of predictions."""

import argparse
import csv
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from fairseq.data import data_utils

from fs_plugins.data.vocabulary import MASK
from fs_plugins.files import atomic, naming_errors
from fs_plugins.finetuning.glue.task import GlueTask
from lib.command_line import Flags, UserError, counted
from lib.files import write_result
from lib.recipes import GRIDS, RECIPES, Recipe, points_of, positions, repetition
from lib.run.checkpoints import Pretrained

BOS, EOS = 0, 2  # <s> and </s> of every fairseq dictionary
SCORES = (0.0, 5.0)  # lowest and highest label of STS-B, the regression
# columns of CoLA's files with labels, which have no header
COLA_COLUMNS = ("source", "label", "mark", "sentence")
NUMBERS = ("index", "id")  # columns of GLUE's numbers of rows
SPLITS = {"train": "train", "valid": "dev", "test": "test"}
MNLI_SPLITS = {
    "train": "train",
    "valid": "dev_matched",
    "valid1": "dev_mismatched",
    "test": "test_matched",
    "test1": "test_mismatched",
}


@dataclass(frozen=True)
class Task:
    """A GLUE task."""

    name: str  # GLUE's spelling
    sentences: tuple[str, ...]  # the columns of its sentences, one or two
    label: str  # the column of its label
    # its classes as in the files, in the order of our class numbers; () for a regression
    labels: tuple[str, ...]
    metrics: tuple[str, ...]  # metrics of its development set; table 3 reports the first
    rows: tuple[int, ...]  # rows of the official files, in the order of ``splits``

    @property
    def splits(self) -> dict[str, str]:
        """Returns our names of the splits -> those of the files."""
        return MNLI_SPLITS if self.name == "MNLI" else SPLITS

    @property
    def official(self) -> dict[str, int]:
        """Returns our names of the splits -> rows of the official files."""
        return dict(zip(self.splits, self.rows, strict=True))

    @property
    def metric(self) -> str:
        return self.metrics[0]

    def title(self, split: str) -> str:
        """Returns the column of a development set in tables, the name of a test set's file for
        gluebenchmark.com."""
        return self.name + ("-mm" if split.endswith("1") else "-m") * (self.name == "MNLI")

    @property
    def regression(self) -> bool:
        return not self.labels

    @property
    def outputs(self) -> int:
        """Returns the number of outputs of the classification head."""
        return len(self.labels) or 1

    @property
    def valid_splits(self) -> tuple[str, ...]:
        return tuple(split for split in self.splits if split.startswith("valid"))


_PAIR, _STRINGS = ("sentence1", "sentence2"), ("#1 String", "#2 String")
_QUESTIONS, _ANSWER = ("question1", "question2"), ("question", "sentence")
_BINARY, _ENTAILMENT = ("0", "1"), ("entailment", "not_entailment")
_THREE = ("contradiction", "neutral", "entailment")
_ACCURACY, _WITH_F1 = ("accuracy",), ("accuracy", "f1")
_MNLI_ROWS = (392_702, 9_815, 9_832, 9_796, 9_847)

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("MNLI", _PAIR, "gold_label", _THREE, _ACCURACY, _MNLI_ROWS),
        Task("QQP", _QUESTIONS, "is_duplicate", _BINARY, _WITH_F1, (363_846, 40_430, 390_965)),
        Task("QNLI", _ANSWER, "label", _ENTAILMENT, _ACCURACY, (104_743, 5_463, 5_463)),
        Task("SST-2", ("sentence",), "label", _BINARY, _ACCURACY, (67_349, 872, 1_821)),
        Task("CoLA", ("sentence",), "label", _BINARY, ("matthews", "accuracy"), (8_551, 1_043, 1_063)),
        Task("RTE", _PAIR, "label", _ENTAILMENT, _ACCURACY, (2_490, 277, 3_000)),
        Task("MRPC", _STRINGS, "Quality", _BINARY, _WITH_F1, (3_668, 408, 1_725)),
        Task("STS-B", _PAIR, "score", (), ("spearman", "pearson"), (5_749, 1_500, 1_379)),
    )
}


def task_named(name: str) -> Task:
    """Returns the task of that name, in any case."""
    with naming_errors(f"task {name!r}, not one of {', '.join(TASKS)}"):
        return {task.name.lower(): task for task in TASKS.values()}[name.lower()]


def head_of(task: str) -> str:
    """Returns the name of a task's classification head, so that MNLI's is left behind for RTE."""
    return task.lower().replace("-", "")


# ---- the files


def file_of(folder: Path, task: Task, split: str) -> Path | None:
    """Returns the file of a split, by our name for it, in a task's folder; None if there is none."""
    names = (f"{task.splits[split]}.tsv", f"{task.splits[split]}.tsv.gz")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_split(path: Path, task: Task, split: str, skip_broken: bool) -> tuple[pd.DataFrame, list[int]]:
    """Returns the rows of a split, with the lines of the file as index, and the lines that were left out.

    Blank lines are no rows. Raises UserError for a missing column or, unless ``skip_broken`` and it is for
    training, a label that the task does not have, as in rows that are cut short; ValueError for a row of too
    many cells.
    """
    labelled = not split.startswith("test")
    bare = {"names": COLA_COLUMNS, "header": None} if task.name == "CoLA" and labelled else {}
    # GLUE has no quoting, and many lone quotation marks
    plain = {"sep": "\t", "quoting": csv.QUOTE_NONE, "dtype": str, "na_filter": False, "lineterminator": "\n"}
    with naming_errors(path), warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # a first row of too many cells
        table = pd.read_csv(
            path, encoding="utf-8-sig", skip_blank_lines=False, index_col=False, **plain, **bare
        )
    table.index += 1 if bare else 2
    table = table.rename(columns=str.strip).apply(lambda column: column.str.strip())
    table = table[table.ne("").any(axis=1)]
    if lacking := {*task.sentences, *([task.label] if labelled else [])}.difference(table):
        shown = ", ".join(map(repr, table.columns[:20]))
        raise UserError(
            f"{path} has no column {min(lacking)}, but {shown}: {task.name}'s files are unquoted TSV"
        )
    if not labelled:
        return table, []
    labels, known = table[task.label], ", ".join(task.labels)
    wrong = ~labels.isin(task.labels)
    if task.regression:
        wrong, known = (
            ~pd.to_numeric(labels, errors="coerce").between(*SCORES),
            "{:g} to {:g}".format(*SCORES),
        )
    if wrong.any() and not (skip_broken and split == "train"):
        line, way_out = wrong.idxmax(), "; --skip-broken leaves such rows out" * (split == "train")
        raise UserError(
            f"{path}, line {line}: label {labels[line]!r}, but {task.name} has {known}, unquoted{way_out}"
        )
    return table[~wrong], table.index[wrong].tolist()


# ---- fine-tuning


def add_options(add: Callable) -> None:
    """Adds finetune_glue.sh's own options, by ``add_argument``."""
    add("--recipe", choices=GRIDS, default=GRIDS[0], help="default: %(default)s")
    add("--test", action="store_true", help="predict the test sets too, for gluebenchmark.com")
    kept = "keep scores and predictions only, as a grid search does"
    add("--drop-checkpoints", action="store_true", help=kept)


def recipe(args: argparse.Namespace, pretrained: Pretrained) -> Recipe:
    """Returns what fairseq-train is called with."""
    task = task_named(args.task)
    data = Path(args.data, f"{task.name}-bin")
    splits = [split for split in task.splits if (data / "input0" / f"{split}.idx").is_file()]
    valid, tests = ([s for s in splits if s.startswith(part)] for part in ("valid", "test"))
    if "train" not in splits:
        raise UserError(f"{data} has no input0/train: give the folder with TASK-bin of prepare_glue.py")
    if args.test and not tests:
        raise UserError(f"--test: {data} has no test set")
    flags = Flags.of(
        f"--classification-head-name {head_of(task.name)} --metrics {','.join(task.metrics)} "
        f"--num-classes {task.outputs} --sentences {len(task.sentences)} --init-token {BOS} "
        "--best-checkpoint-metric score --maximize-best-checkpoint-metric "
        f"--separator-token {EOS} --valid-subset {','.join(valid)} {'--regression-target' * task.regression}"
    )
    flags |= repetition(pretrained) | pretrained.flags | positions(pretrained)
    flags |= Flags.read(RECIPES / "recipe.flags") | points_of(task.name, args.recipe)[0].flags | args.user
    return Recipe(
        data,
        flags,
        rows=len(data_utils.load_indexed_dataset(str(data / "input0" / "train"), None)),
        metrics=("score", "accuracy", "loss", "nll_loss"),
        evaluation=["--split", *valid, *(tests if args.test else ())],
        settings={"task": task.name, "test": args.test},
    )


# ---- predictions


def write(task: GlueTask, outputs: dict, args: argparse.Namespace, model: str) -> str:
    """Writes predictions/SPLIT.tsv, submission/TASK.tsv of a split without labels and, last, result.json
    into ``args.output``; returns the scores in words. ``outputs`` has for each split ids [N] and rows [N,
    outputs]."""
    name, classes = named(args.data), classes_of(args, task)
    scores, rows = {}, {}
    for split, (ids, values) in outputs.items():
        table = pd.DataFrame({"index": ids})
        table["prediction"] = [classes[i] for i in values.argmax(1)] if classes else values[:, 0]
        if task.targets[split] is None:
            numbers = args.data / f"{split}.index"  # data prepared by hand have none
            if numbers.exists():
                table["index"] = numbers.read_text().split()
            file = f"{TASKS[name].title(split) if name in TASKS else name}.tsv"
            in_range = table if classes else table.assign(prediction=table["prediction"].clip(*SCORES))
            write_table(args.output / "submission" / file, in_range, float_format="%.3f")
        else:
            labels = task.labels(split, ids)
            table["label"] = [classes[int(i)] for i in labels] if classes else labels
            scores[split], rows[split] = task.score(split, ids, values), len(ids)
        table = table.assign(**{f"output{i}": column for i, column in enumerate(values.T)})
        write_table(args.output / "predictions" / f"{split}.tsv", table)
    lengths = {split: row_lengths(args.data, split) for split in ("train", *outputs)}
    rows["train"], limit = len(lengths["train"]), task.max_positions()
    cut = {split: [int((values > limit).sum()), limit] for split, values in lengths.items()}
    about = {"rows": rows, "cut": cut}
    write_result(args.output, "glue", name, task.metric, scores, args.checkpoint.parent, **about)
    lines = []
    for split, values in scores.items():
        shorter = f", {cut[split][0]:,} of them cut to {limit} tokens" if cut[split][0] else ""
        shown = ", ".join(f"{metric} {100 * value:.2f}" for metric, value in values.items())
        lines.append(f"{name} {split} ({counted(rows[split], 'row')}{shorter}): {shown}")
    return "\n".join(lines)


def named(data: Path) -> str:
    """Returns the task of a TASK-bin, which may be a link, or what one points to."""
    names = [one.name.removesuffix("-bin") for one in (Path(os.path.abspath(data)), data.resolve())]
    return next((name for name in names if name in TASKS), names[1])


def classes_of(args: argparse.Namespace, task: GlueTask) -> list[str]:
    """Returns the names of the classes; [] for a regression. Raises UserError if the data are another task's
    than the checkpoint's."""
    name, head = named(args.data), task.cfg.classification_head_name
    trained = {head_of(one): one for one in TASKS}.get(head, name)
    if name in TASKS and trained != name:
        raise UserError(f"{args.checkpoint} was fine-tuned on {trained}: {args.data} is of {name}")
    classes = [] if task.cfg.regression_target else task.label_dictionary.symbols[task.dictionary.nspecial :]
    classes = [name for name in classes if name != MASK and not name.startswith("madeupword")]
    if classes and len(classes) != task.cfg.num_classes:
        raise UserError(
            f"{args.checkpoint} has {task.cfg.num_classes} classes, {args.data} {len(classes)} "
            f"({', '.join(classes)}): give the data that it was fine-tuned on"
        )
    return classes


def write_table(path: Path, table: pd.DataFrame, **form) -> None:
    path.parent.mkdir(exist_ok=True)
    with atomic(path) as file:
        table.to_csv(file, sep="\t", index=False, quoting=csv.QUOTE_NONE, **form)


def row_lengths(data: Path, split: str) -> np.ndarray:
    """Returns [rows] tokens of each row of a split of TASK-bin, with <s> and the </s> between two
    sentences."""
    parts = sorted(data.glob("input[01]"))
    datasets = [data_utils.load_indexed_dataset(str(part / split), None) for part in parts]
    return sum(dataset.sizes for dataset in datasets) + len(parts)
