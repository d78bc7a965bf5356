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
MRPC_RAW = {"train": "msr_paraphrase_train.txt", "valid": "msr_paraphrase_train.txt"}
MRPC_RAW["test"] = "msr_paraphrase_test.txt"
MRPC_DEV_IDS = ("dev_ids.tsv", "mrpc_dev_ids.tsv")


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


def find_file(folder: Path, names: tuple[str, ...]) -> Path | None:
    for name in names:
        for path in (folder / name, folder / f"{name}.gz"):
            if path.is_file():
                return path
    return None


def file_of(folder: Path, task: Task, split: str) -> Path | None:
    """The file of a split of a task; None if there is none.

    Args:
        folder: of the task, such as glue/RTE.
        split: our name for it.
    """
    found = find_file(folder, (f"{task.splits[split]}.tsv",))
    if found is None and task.name == "MRPC":
        found = find_file(folder, (MRPC_RAW[split],))
    return found


def is_raw_mrpc(path: Path) -> bool:
    return path.name.startswith("msr_paraphrase_")


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
    if is_raw_mrpc(path) and split != "test":
        dev = _mrpc_dev_ids(path)
        missing = set(dev)
        for row, fields in _read(path, task, split, skip_broken, report):
            pair = fields["#1 ID"], fields["#2 ID"]
            missing.discard(pair)
            if (pair in dev) == (split == "valid"):
                report.rows += 1
                yield row
        if missing:
            raise UserError(
                f"{path} lacks {len(missing)} of the {len(dev)} pairs of its {' or '.join(MRPC_DEV_IDS)}, "
                f"such as {' '.join(min(missing))}: download both again"
            )
        return
    for row, _ in _read(path, task, split, skip_broken, report):
        report.rows += 1
        yield row


def _read(path, task, split, skip_broken, report) -> Iterator[tuple[Row, dict[str, str]]]:
    labelled = not split.startswith("test")
    columns = list(task.headless) if task.headless and labelled else None
    place = 0
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
        index = named.get("index", named.get("id", str(place))) if not labelled else str(place)
        yield Row(number, index, sentences, label), named
        place += 1
    if place == 0:
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


def _mrpc_dev_ids(path: Path) -> set[tuple[str, str]]:
    """The pairs of MRPC's training file that make up GLUE's development set."""
    found = find_file(path.parent, MRPC_DEV_IDS)
    if found is None:
        raise UserError(
            f"{path} holds both the training and the development set: put GLUE's list of the latter "
            f"({' or '.join(MRPC_DEV_IDS)}) beside it, or provide train.tsv and dev.tsv"
        )
    pairs = set()
    for number, line in lines_of(found):
        pair = tuple(line.split("\t"))
        if len(pair) != 2:
            raise UserError(f"{found}, line {number}: {line!r} is not a pair of ids")
        pairs.add(pair)
    return pairs
