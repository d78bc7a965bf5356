"""GLUE's files row by row: tab-separated, without quoting, plain or gzip."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lib.command_line import UserError
from lib.files import lines_of
from lib.glue.tasks import Task

LONGEST_SHOWN = 300  # characters of a header
LISTED = 5  # of the skipped lines, how many are named


@dataclass(frozen=True)
class Row:
    """An example.

    Attributes:
        line: its line in the file, from 1.
        index: GLUE's number of it; in a file without such a column its position, from 0.
        sentences: one or two.
        label: as in the file; None in a test set.
    """

    line: int
    index: str
    sentences: tuple[str, ...]
    label: str | None


@dataclass
class Report:
    """What reading a split found."""

    rows: int = 0
    empty_sentences: int = 0
    skipped: list[int] = field(default_factory=list)


def file_of(folder: Path, task: Task, split: str) -> Path | None:
    """The file of a split of a task; None if there is none.

    Args:
        folder: of the task, such as glue/RTE.
        split: our name for it.
    """
    names = (f"{task.splits[split]}.tsv", f"{task.splits[split]}.tsv.gz")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_split(path: Path, task: Task, split: str, skip_broken: bool, report: Report) -> Iterator[Row]:
    """The rows of a file.

    Args:
        path: of :func:`file_of`.
        skip_broken: leave out rows of a training set whose number of columns is not the header's; they are
            listed in ``report``.
        report: filled in as rows are read.

    Raises:
        UserError: for a missing column, a broken row, or a label that the task does not have.
    """
    labelled = not split.startswith("test")
    columns = list(task.headless) if task.headless and labelled else None
    for number, line in lines_of(path):
        fields = line.split("\t")
        if columns is None:
            columns = fields
            _check_header(path, task, columns, labelled)
            continue
        if len(fields) != len(columns):
            if skip_broken and split == "train":
                report.skipped.append(number)
                continue
            if not line:
                raise UserError(f"{path}, line {number} is empty: remove it")
            way_out = " (or skip such rows: --skip-broken)" if split == "train" else ""
            raise UserError(
                f"{path}, line {number}: {len(fields)} columns, expected {len(columns)}: GLUE's files are "
                f"not quoted; if a program added quotes, download the file again{way_out}"
            )
        named = dict(zip(columns, fields, strict=True))
        sentences = tuple(named[column].strip() for column in task.sentences)
        report.empty_sentences += sum(not sentence for sentence in sentences)
        label = check_label(path, number, task, named[task.label]) if labelled else None
        index = str(report.rows) if labelled else named.get("index", named.get("id", str(report.rows)))
        yield Row(number, index, sentences, label)
        report.rows += 1
    if report.rows == 0:
        raise UserError(f"{path} has no rows")


def _check_header(path: Path, task: Task, columns: list[str], labelled: bool) -> None:
    shown = ", ".join(columns)
    shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "..."
    for column in (*task.sentences, *([task.label] if labelled else [])):
        if column not in columns:
            raise UserError(f"{path}, line 1: {task.name} needs a column {column!r}; the columns are {shown}")


def check_label(path: Path, number: int, task: Task, label: str) -> str:
    """The label of a line.

    Raises:
        UserError: if the task has no such label.
    """
    if task.labels:
        if label not in task.labels:
            known = ", ".join(task.labels)
            raise UserError(f"{path}, line {number}: label {label!r}, but {task.name} has {known}")
        return label
    lowest, highest = task.score_range
    try:
        score = float(label)
    except ValueError:
        score = math.nan
    if not lowest <= score <= highest:
        raise UserError(
            f"{path}, line {number}: score {label!r}, but {task.name} has {lowest:g} to {highest:g}"
        )
    return label
