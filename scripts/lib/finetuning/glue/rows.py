"""The rows of GLUE's files: the TSV of gluebenchmark.com, and the Parquet of the Hugging Face hub."""

from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from lib.command_line import UserError
from lib.data.parquet import PARQUET, class_names, columns_of, rows_of, shards_of
from lib.data.text_files import lines_of
from lib.finetuning.glue.tasks import COLA_COLUMNS, HUB_LABEL, SCORES, Task, head_of

from fs_plugins.files import naming_errors

NUMBERS = ("index", "id", "idx")  # columns of GLUE's numbers of rows


@dataclass
class Rows:
    """The rows of a split, as its files have them."""

    files: list[Path]  # sources of the rows
    # columns: ``task.sentences``, ``task.label`` in a split that has labels, and those of GLUE's
    # numbers; its index is the line in the file, or the row in all Parquet files
    table: pd.DataFrame
    skipped: list[int]  # lines that were left out

    def where(self, line: int) -> str:
        """Returns file and line of a row, for messages."""
        path, more = self.files[0], " and on" if len(self.files) > 1 else ""
        return f"{path}{more}, {'row' if path.suffix == PARQUET else 'line'} {line}"


def folder_of(glue: Path, task: Task) -> Path | None:
    """Returns GLUE/RTE, or GLUE/rte as on the hub; None if there is neither."""
    return next((path for path in (glue / task.name, glue / head_of(task.name)) if path.is_dir()), None)


def files_of(folder: Path, task: Task, split: str) -> list[Path]:
    """Returns the files of a split, by our name for it, in a task's folder; [] if there are none."""
    names = (f"{task.splits[split]}.tsv", f"{task.splits[split]}.tsv.gz")
    files = [folder / name for name in names if (folder / name).is_file()]
    return files[:1] or shards_of(folder, task.splits[split].replace("dev", "validation"))


def read_split(files: list[Path], task: Task, split: str, skip_broken: bool) -> Rows:
    """Reads the rows of a split, in the files of :func:`files_of`. Raises UserError for a label that the task
    does not have, or, unless ``skip_broken`` and it is for training, a row whose number of columns is not the
    header's."""
    labelled = not split.startswith("test")
    read = _parquet if files[0].suffix == PARQUET else _tsv
    with naming_errors(files[0]):
        rows = read(files, task, labelled, skip_broken if split == "train" else None)
        for column in task.sentences:
            rows.table[column] = rows.table[column].str.strip()
        labels = rows.table[task.label] if labelled else None
    if labelled:
        known = ", ".join(task.labels)
        wrong = ~labels.isin(task.labels)
        if task.regression:
            wrong = ~pd.to_numeric(labels, errors="coerce").between(*SCORES)
            known = f"{SCORES[0]:g} to {SCORES[1]:g}"
        if wrong.any():
            line = wrong.idxmax()
            raise UserError(f"{rows.where(line)}: label {str(labels[line])!r}, but {task.name} has {known}")
    return rows


def _tsv(files: list[Path], task: Task, labelled: bool, skip_broken: bool | None) -> Rows:
    """Returns the rows of a file. pandas would read it, but pad short rows, shift columns and drop empty
    lines unsaid."""
    [path] = files
    lines = {number: line.split("\t") for number, line in lines_of(path)}
    columns = list(COLA_COLUMNS) if task.name == "CoLA" and labelled else lines.pop(1, [])
    broken = [number for number, fields in lines.items() if len(fields) != len(columns)]
    if broken and not skip_broken:
        shown = f"{len(lines[broken[0]])} columns, expected {len(columns)}: GLUE's files are not quoted"
        way_out = "" if skip_broken is None else "; --skip-broken leaves such rows out"
        raise UserError(f"{path}, line {broken[0]}: {shown}{way_out}")
    for number in broken:
        del lines[number]
    table = pd.DataFrame(list(lines.values()), index=list(lines), columns=columns, dtype=object)
    return Rows(files, table, broken)


def _parquet(files: list[Path], task: Task, labelled: bool, _) -> Rows:
    """Returns rows with the columns and labels of the TSV files; the hub has others, and numbers for
    classes."""
    names = dict(zip(task.hub_sentences, task.sentences, strict=True))
    names |= {HUB_LABEL: task.label} if labelled else {}
    columns = columns_of(files[0])
    names |= {name: name for name in NUMBERS if name in columns and not labelled}
    values = [row for path in files for row in rows_of(path, list(names))]
    table = pd.DataFrame(values, range(1, len(values) + 1), list(names.values()), dtype=object)
    for column in task.sentences:
        table[column] = table[column].fillna("")
    if labelled and not task.regression:
        classes = class_names(files[0], HUB_LABEL) or list(task.hub_classes)
        numbered = dict(enumerate(classes))
        table[task.label] = [
            task.hub_classes.get(name, name) for name in (numbered.get(y, y) for y in table[task.label])
        ]
    return Rows(files, table, [])
