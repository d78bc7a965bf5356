"""Molecules with labels from a table or from Uni-Mol's LMDBs; the columns of the seven sets of table 9, as
DeepChem distributes them."""

import math
import re
import shlex
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from fs_plugins.files import naming_errors
from lib.command_line import UserError, counted
from lib.data.lmdb_reader import decode_value, lmdb_file, lmdb_items
from lib.data.molecules import TABLES, format_of
from lib.data.tables import SMILES_OPTION, TableFormat, cells_fault, column_of, table_rows
from lib.data.text_files import invalid_byte

PARTS = ("train", "valid", "test")
MISSING = ("", "nan")  # labels in a table
MISSING_CLASS = -1.0  # missing label in an LMDB file
CLASSES = {"false": 0.0, "true": 1.0}
LARGEST, SMALLEST = float(np.finfo(np.float32).max), 2.0**-126  # normal float32
MOST_CLASSES = 1000
WANTED = {"classification": "0 or 1", "multiclass": "0, 1, 2, ...", "regression": "a float32"}
LIMIT = re.compile(r"\s*[<>≤≥]")
LISTED = 10  # most rows listed in a message
EMPTY_LINE = "empty line"
# headers of the row numbers that people and pandas write beside a table
IDENTIFIER = re.compile(r"(.*[_ ])?(id|cid|sid|cas|index|idx|no|nr|number|row)", re.IGNORECASE)
UNNAMED = re.compile(r"(Unnamed: \d+|__index_level_\d+__)?")


@dataclass
class Molecule:
    """A molecule as it stands in its file, and what prepare_moleculenet.py makes of it."""

    line: int  # line of the file, the header being 1; in an LMDB file the number of the entry, from 1
    smiles: str
    split: str = ""  # "train", "valid" or "test" if the source says so
    cells: Sequence = ()  # of the properties
    fault: str = ""  # why it cannot be used, if it cannot
    remarks: list[str] = field(default_factory=list)  # warnings
    labels: Sequence[float] = ()  # one for each property, NaN if missing
    written: str = ""  # the SMILES as the model gets it, of which ``tokens`` are the tokens
    tokens: list[str] = field(default_factory=list)
    canonical: str = ""  # RDKit's canonical SMILES, by which repeated molecules are found
    scaffold: str = ""


@dataclass(frozen=True)
class LabelFormat:
    """How to read cells as labels."""

    # labels of "classification" are 0 and 1, of "multiclass" 0, 1, 2, ..., and of "regression" numbers that
    # float32 can hold
    kind: str
    decimal: str = "."  # the decimal mark of numbers
    log: bool = False  # whether the labels are the decimal logarithms of the cells
    missing: Sequence[str] = ()  # how a missing label is written, besides MISSING; in any letter case
    skip_broken: bool = False  # whether cells that are not labels are left out, and molecules without another

    def label(self, cell) -> float | None:
        """Returns the label in a cell, NaN for a missing one; None if the cell is not a label."""
        text = str(cell).strip().lower()
        if text in MISSING or text in map(str.lower, self.missing):
            return math.nan
        if self.decimal != ".":  # 1.000 may be a thousand
            text = text.replace(".", "?").replace(self.decimal, ".")
        with suppress(ValueError):
            label = CLASSES[text] if self.kind == "classification" and text in CLASSES else float(text)
            fits = {
                "classification": label in (0.0, 1.0),
                "multiclass": label in range(MOST_CLASSES),
                "regression": SMALLEST <= abs(label) <= LARGEST or label == 0,
            }[self.kind]
            if fits and "_" not in text:  # Python reads 1_000, which is nobody's number
                return math.log10(label) if self.log else label
        return None

    def read(self, path: Path, names: Sequence[str], molecules: list[Molecule]) -> list[str]:
        """Reads the cells of all molecules without a fault; returns what to report. Raises UserError if some
        are not labels, unless they are left out; lists the first of them."""
        faults, broken = {}, []  # line -> fault; the cells of each that are not labels
        for row in (row for row in molecules if not row.fault):
            found = [self.label(cell) for cell in row.cells]
            row.labels = [math.nan if label is None else label for label in found]
            if wrong := [i for i, label in enumerate(found) if label is None]:
                broken.append([str(row.cells[i]) for i in wrong])
                fault = f"not a label: {', '.join(f'{names[i]} is {row.cells[i]!r}' for i in wrong)}"
                faults[f"{row.line} {row.split}".rstrip()] = fault
                if all(map(math.isnan, row.labels)):
                    row.fault = fault
                else:
                    row.remarks = [fault]
        if faults and not self.skip_broken:
            cells = (cell for cells in broken for cell in cells if re.fullmatch(r"[^'\d]{1,12}", cell))
            named = shlex.join(cell for cell, _ in Counter(cells).most_common(4)) or "NA"
            lines = [f"\n  line {line}: {fault[:200]}" for line, fault in faults.items()]
            raise UserError(
                f"{path} has {counted(len(faults), 'row')} with cells that are neither "
                f"{'positive and ' * self.log}{WANTED[self.kind]} nor empty: choose the labels' columns "
                "(--label-columns), --kind regression for numbers, --decimal , for decimal commas; name "
                f"cells that stand for a missing label (--missing {named}); or leave such cells out with "
                f"--skip-broken{''.join(lines[:LISTED])}"
            )
        remarks = []
        if limits := sum(any(map(LIMIT.match, cells)) for cells in broken):
            remarks.append(
                f"{counted(limits, 'row')} had a limit, such as '>10', instead of a label: without them an "
                "end of the range is missing, and errors look smaller than they are; consider limits "
                "themselves as labels"
            )
        if partly := sum(bool(row.remarks) for row in molecules):
            remarks.append(f"{counted(partly, 'row')} lost cells that are not labels: see report.tsv")
        return remarks


def read_table(
    path: Path,
    label_columns: Sequence[str],
    labels: LabelFormat,
    form: TableFormat,
    ignored: Sequence[str] = (),
    split_column: str | None = None,
) -> tuple[list[str], list[Molecule], list[str]]:
    """Returns the properties and the molecules of a table, and what to say of it; without ``label_columns``
    all other columns that have a name are properties. Raises UserError if a column is missing."""
    format_of(path, TABLES)
    rows = table_rows(path, form)
    _, header = next(rows)
    smiles_at = column_of(header, form.column, path, SMILES_OPTION)
    split_at = column_of(header, split_column, path, "--split-column") if split_column else None
    unnamed = [i for i, name in enumerate(header) if UNNAMED.fullmatch(name)]
    other = {header[smiles_at], split_column, *ignored, *(header[i] for i in unnamed)}
    names = list(label_columns) or [name for name in header if name not in other]
    at = [column_of(header, name, path, "--label-columns") for name in names]
    if len(set(at)) < len(at) or any(map(invalid_byte, names)):
        shown = ", ".join(map(ascii, names))
        raise UserError(f"{path}: the labels are {shown}: give each once, or --encoding if it is not UTF-8")
    molecules, remarks = [], []
    for line, cells in rows:
        row = Molecule(line, cells[smiles_at].strip() if smiles_at < len(cells) else "")
        row.fault = cells_fault(cells, header) if any(map(str.strip, cells)) else EMPTY_LINE
        if not row.fault:
            row.cells, row.split = [cells[i] for i in at], "" if split_at is None else cells[split_at]
        molecules.append(row)
    if unnamed and not label_columns:
        shown = ", ".join(str(i + 1) for i in unnamed)
        remarks.append(f"column {shown} without a name (a row number?) is not a property, and was ignored")
    remarks += labels.read(path, names, molecules)
    if not label_columns and (found := _identifiers(names, molecules)):
        remarks.append(
            f"{', '.join(found)} has another whole number in each row, or nearly: if it is an identifier, "
            "give the properties alone (--label-columns)"
        )
    return names, molecules, remarks


def _identifiers(names: Sequence[str], molecules: list[Molecule]) -> list[str]:
    """Returns the properties whose labels are whole numbers, nearly each another, or many and named so."""
    found = []
    for name, column in pd.DataFrame([row.labels for row in molecules if row.labels], columns=names).items():
        column, few = column.dropna(), 0.5 if IDENTIFIER.fullmatch(name) else 0.95
        if len(column) > 2 and not (column % 1).any() and column.nunique() >= few * len(column):
            found.append(name)
    return found


def read_lmdbs(
    folder: Path, names: Sequence[str], labels: LabelFormat
) -> tuple[list[str], list[Molecule], list[str]]:
    """Returns what :func:`read_table` does, of Uni-Mol's train.lmdb, valid.lmdb and test.lmdb, which do not
    have the properties' names: () for property-1, property-2, ...; -1 is a missing class."""
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
            if labels.kind != "regression":
                row.cells = ["" if cell == MISSING_CLASS else cell for cell in row.cells]
    return names, molecules, labels.read(folder, names, molecules)
