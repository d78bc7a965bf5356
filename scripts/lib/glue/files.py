"""GLUE's files: tab-separated, without quoting, plain or gzip."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from lib.command_line import UserError
from lib.glue.tasks import Task
from lib.preparing import lines_of

LONGEST_SHOWN = 300  # characters of a header


def file_of(folder: Path, task: Task, split: str) -> Path | None:
    """The file of a split of a task; None if there is none.

    Args:
        folder: of the task, such as glue/RTE.
        split: our name for it.
    """
    names = (f"{task.splits[split]}.tsv", f"{task.splits[split]}.tsv.gz")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_split(path: Path, task: Task, split: str, skip_broken: bool) -> tuple[pd.DataFrame, list[int]]:
    """The rows of a file, labelled by their lines from 1, and the lines that were skipped.

    pandas would read the file itself, but pad short rows, shift columns and drop empty lines in silence.

    Args:
        path: of :func:`file_of`.
        skip_broken: skip rows of a training set whose number of columns is not the header's.

    Raises:
        UserError: for a missing column, a broken row, or a label that the task does not have.
    """
    labelled = not split.startswith("test")
    lines = {number: line.split("\t") for number, line in lines_of(path)}
    columns = list(task.headless) if task.headless and labelled else lines.pop(1, [])
    for column in (*task.sentences, *([task.label] if labelled else [])):
        if column not in columns:
            shown = ", ".join(columns)
            shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "..."
            raise UserError(f"{path}, line 1: {task.name} needs a column {column!r}; the columns are {shown}")
    broken = [number for number, fields in lines.items() if len(fields) != len(columns)]
    if broken and not (skip_broken and split == "train"):
        way_out = " (or skip such rows: --skip-broken)" if split == "train" else ""
        found = f"{len(lines[broken[0]])} columns, expected {len(columns)}"
        raise UserError(
            f"{path}, line {broken[0]}: {found}: GLUE's files are not quoted; if a program added quotes, "
            f"download the file again{way_out}"
        )
    for number in broken:
        del lines[number]
    if not lines:
        raise UserError(f"{path} has no rows")
    rows = pd.DataFrame(list(lines.values()), index=list(lines), columns=columns, dtype=object)
    if labelled:
        check_labels(path, task, rows[task.label])
    return rows, broken


def check_labels(path: Path, task: Task, labels: pd.Series) -> None:
    """Raises UserError for a label, by its line, that the task does not have."""
    if task.labels:
        wrong, known = ~labels.isin(task.labels), ", ".join(task.labels)
    else:
        lowest, highest = task.score_range
        wrong = ~pd.to_numeric(labels, errors="coerce").between(lowest, highest)
        known = f"{lowest:g} to {highest:g}"
    if wrong.any():
        line = wrong.idxmax()
        raise UserError(f"{path}, line {line}: label {labels[line]!r}, but {task.name} has {known}")
