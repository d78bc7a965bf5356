"""Molecules with labels, from a table or from Uni-Mol's LMDB files."""

import math
import re
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fs_plugins.files import naming_errors
from lib.command_line import UserError, counted
from lib.data.frames import TableFormat, column_of
from lib.data.frames import read_table as read_frame

PARTS = ("train", "valid", "test")
MISSING = ("", "nan")  # how missing labels are written, in any letter case
MISSING_CLASS = -1.0  # missing label in an LMDB file
CLASSES = {"false": 0.0, "true": 1.0}
LARGEST, SMALLEST = float(np.finfo(np.float32).max), 2.0**-126  # normal float32
WANTED = {"classification": "0 or 1", "regression": "numbers"}
LISTED = 10  # most rows listed in a message
FAR = 10  # standard deviations from the mean, beyond which a label is pointed at
# headers of the row numbers that spreadsheets and pandas write beside a table
UNNAMED = re.compile(r"(Unnamed: \d+|__index_level_\d+__)?")


@dataclass
class Molecule:
    """A molecule as it stands in its file, and what prepare_moleculenet.py makes of it."""

    line: int  # line of the file, the header being 1; in an LMDB file the number of the entry, from 1
    smiles: str
    split: str = ""  # what the source says of it: in LMDB files "train", "valid" or "test"
    cells: Sequence = ()  # of the properties
    fault: str = ""  # why it cannot be used, if it cannot
    remarks: list[str] = field(default_factory=list)  # warnings
    labels: Sequence[float] = ()  # one for each property, NaN if missing
    written: str = ""  # the SMILES as the model gets it, of which ``tokens`` are the tokens
    tokens: list[str] = field(default_factory=list)
    canonical: str = ""  # RDKit's canonical SMILES, by which repeated molecules are found
    scaffold: str = ""


def label_of(cell, kind: str, missing: Sequence[str] = ()) -> float | None:
    """Returns the label in a cell: of "classification" 0 or 1, of "regression" a number that float32 can
    hold; NaN for a missing one. None if the cell is not a label."""
    text = str(cell).strip().lower()
    if text in MISSING or text in map(str.lower, missing):
        return math.nan
    with suppress(ValueError):
        label = CLASSES[text] if kind == "classification" and text in CLASSES else float(text)
        fits = label in (0.0, 1.0) if kind == "classification" else SMALLEST <= abs(label) <= LARGEST
        if (fits or label == 0) and "_" not in text:  # Python reads 1_000, which is nobody's number
            return label
    return None


def read_table(
    path: Path,
    form: TableFormat,
    label_columns: Sequence[str],
    ignored: Sequence[str] = (),
    split_column: str | None = None,
) -> tuple[list[str], list[Molecule], list[str]]:
    """Returns the properties and the molecules of a table, and what to say of it; without ``label_columns``
    all other columns that have a name and a cell are properties. Rows without SMILES and labels are none.
    Raises UserError if a column is missing or has no label."""
    frame, remarks = read_frame(path, form).map(str.strip), []
    smiles = column_of(frame, form.column, path)
    split = column_of(frame, split_column, path) if split_column else None
    empty = [name for name in dict.fromkeys(frame) if not frame[name].ne("").to_numpy().any()]
    names = [column_of(frame, name, path) for name in label_columns]
    if not names:
        unnamed = [name for name in frame if UNNAMED.fullmatch(name)]
        others = {smiles, split, *ignored, *unnamed, *empty}
        names = [name for name in frame if name not in others]
        if left_out := [*dict.fromkeys(name for name in (*unnamed, *empty) if name)]:
            remarks.append(f"row numbers and empty columns are no properties: {', '.join(left_out)}")
    if not names or {*names} & {*empty}:
        what = f"no label in {', '.join(sorted({*names} & {*empty}))}" if names else "no column of labels"
        raise UserError(f"{path} has {what}: choose the columns of the labels (--label-columns)")
    if twice := [one for one in (smiles, split, *names) if max([*frame].count(one), names.count(one)) > 1]:
        raise UserError(f"{path}: two columns {twice[0]!r}: give each its own name, and name it once")
    used = frame[[smiles, *names]].ne("").any(axis=1)
    columns = frame.loc[used, [smiles, split or smiles, *names]].itertuples(name=None)
    molecules = [Molecule(line, text, part if split else "", cells) for line, text, part, *cells in columns]
    return names, molecules, remarks


def read_lmdbs(folder: Path, names: Sequence[str], kind: str) -> tuple[list[str], list[Molecule], list[str]]:
    """Returns what :func:`read_table` does, of Uni-Mol's train.lmdb, valid.lmdb and test.lmdb, which do not
    have the properties' names: () for property-1, property-2, ...; -1 is a missing class."""
    from lib.data.lmdb_reader import decode_value, lmdb_file, lmdb_items  # needs lmdb

    names, molecules = list(names), []
    for part in PARTS:
        path = lmdb_file(folder / f"{part}.lmdb")
        for number, (_, value) in enumerate(lmdb_items(path, by_number=True), start=1):
            molecules.append(row := Molecule(number, "", part))
            try:
                entry = decode_value(value)
            except ValueError as error:
                row.fault = str(error)
                continue
            with naming_errors(f"{path}, entry {number}"):
                row.smiles, row.cells = entry["smi"], np.asarray(entry["target"]).reshape(-1).tolist()
                names = names or [f"property-{i + 1}" for i in range(len(row.cells))]
                if len(row.cells) != len(names):
                    raise UserError(f"its labels are {len(row.cells)}, not {len(names)}")
            if kind == "classification":
                row.cells = ["" if cell == MISSING_CLASS else cell for cell in row.cells]
    return names, molecules, []


def read_labels(
    path: Path, names: Sequence[str], molecules: list[Molecule], kind: str, missing: Sequence[str], skip: bool
) -> list[str]:
    """Reads the cells of all molecules without a fault; returns what to report. With ``skip`` cells that are
    not labels are left out, and molecules without another label; else they raise UserError, which lists the
    first of them."""
    broken: dict[str, list[str]] = {name: [] for name in names}
    rows = [row for row in molecules if not row.fault and not re.search(r"\s", row.smiles)]
    faults = []
    for row in rows:
        found = [label_of(cell, kind, missing) for cell in row.cells]
        row.labels = [math.nan if label is None else label for label in found]
        if wrong := [i for i, label in enumerate(found) if label is None]:
            for i in wrong:
                broken[names[i]].append(str(row.cells[i]))
            fault = f"not a label: {', '.join(f'{names[i]} is {row.cells[i]!r}' for i in wrong)}"
            faults.append(f"line {row.line} {row.split}".rstrip() + f": {fault[:200]}")
            if all(map(math.isnan, row.labels)):
                row.fault = fault
            else:
                row.remarks.append(fault)
    if not faults:
        return []
    if skip:
        return [f"{counted(len(faults), 'row')} had cells that are not labels: see report.tsv"]
    wanted = f"labels are {WANTED[kind]}"
    for name, cells in ((name, cells) for name, cells in broken.items() if cells):
        filled = sum(str(row.cells[names.index(name)]).strip() != "" for row in rows)
        found, way_out = "text", "choose other columns (--label-columns)"
        if kind == "classification" and all(label_of(cell, "regression") is not None for cell in cells):
            found, way_out = "numbers", "give --kind regression, or write the classes as 0 and 1"
        elif len(cells) <= filled / 2:
            continue
        elif re.fullmatch(r"-?\d+,\d+", cells[0]):
            found, way_out = "decimal commas", "write points, as pandas.read_csv(..., decimal=',') reads them"
        shown = f"the column {name!r} holds {found}, such as {cells[0][:40]!r}"
        raise UserError(f"{path}: {shown}, but {wanted}: {way_out}")
    named = dict.fromkeys(cell for cells in broken.values() for cell in cells if not re.search(r"\d", cell))
    raise UserError(
        f"{path} has {counted(len(faults), 'row')} with cells that are no labels ({wanted}): name those that "
        f"stand for a missing label (--missing {shlex.join([*named][:4]) or 'NA'}), correct them, or leave "
        "them out (--skip-broken)" + "".join(f"\n  {fault}" for fault in faults[:LISTED])
    )


def far_labels(names: Sequence[str], molecules: list[Molecule]) -> list[str]:
    """Returns what to report of labels that are far from the others, as in another unit: more than FAR
    standard deviations of the middle 95% from their mean. Each molecule gets a remark."""
    rows, remarks = [row for row in molecules if not row.fault], []
    for i, name in enumerate(names):
        values = np.array([row.labels[i] for row in rows])
        known = np.sort(values[~np.isnan(values)])
        ends = max(len(known) // 40, min(2, len(known) // 10))
        middle = known[ends : len(known) - ends]
        if len(middle) < 3 or not (scale := middle.std()):
            continue
        for row, distance in zip(rows, np.abs(values - middle.mean()) / scale, strict=True):
            if distance > FAR:
                remark = f"{name} is {row.labels[i]:g}, {distance:.0f} standard deviations from the mean"
                row.remarks.append(remark)
                remarks.append(f"line {row.line}: {remark}: is it in another unit?")
    more = [f"{len(remarks) - LISTED:,} more such labels: see report.tsv"] if len(remarks) > LISTED else []
    return remarks[:LISTED] + more
