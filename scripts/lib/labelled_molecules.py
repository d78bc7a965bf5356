"""Molecules with labels, from a table or from Uni-Mol's LMDB files, as data frames.

A source is two frames of the same rows: ``rows`` with the columns "line" (of the file, the header being 1;
in an LMDB file the number of the entry, from 1), "smiles", "split" (what the source says of it), "remarks" (a
list) and "skipped" (whether the row cannot be used, for the last of its remarks), and ``cells`` with a column
for each property.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from lib.command_line import UserError
from lib.data.frames import TableFormat, column_of
from lib.data.frames import read_table as read_frame

PARTS = ("train", "valid", "test")
MISSING = ("", "nan")  # how missing labels are written, in any letter case
MISSING_CLASS = -1.0  # missing label in an LMDB file
CLASSES = {"false": "0", "true": "1"}
LARGEST, SMALLEST = float(np.finfo(np.float32).max), 2.0**-126  # normal float32
FAR = 10  # standard deviations from the mean, beyond which a label is pointed at
# headers of the row numbers that spreadsheets and pandas write beside a table
UNNAMED = r"(Unnamed: \d+|__index_level_\d+__)?"


def read_table(
    path: Path,
    form: TableFormat,
    label_columns: Sequence[str],
    ignored: Sequence[str] = (),
    split_column: str | None = None,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns rows and cells of a table; without ``label_columns`` all other columns that have a name and a
    cell are properties. Rows without SMILES and labels are none. Raises UserError if a column is missing or
    has no label."""
    frame = read_frame(path, form).map(str.strip)
    smiles = column_of(frame, form.column, path)
    split = [column_of(frame, split_column, path)] if split_column else []
    filled = frame.columns[frame.ne("").any().to_numpy()]
    names = [column_of(frame, name, path) for name in label_columns]
    if not names:
        properties = filled[~filled.str.fullmatch(UNNAMED) & ~filled.isin([smiles, *split, *ignored])]
        names = [*properties]
    if not names or not {*names} <= {*filled}:
        what = f"no label in {', '.join(sorted({*names} - {*filled}))}" if names else "no column of labels"
        raise UserError(f"{path} has {what}: choose the columns of the labels (--label-columns)")
    if twice := [one for one in (smiles, *split, *names) if max([*frame].count(one), names.count(one)) > 1]:
        raise UserError(f"{path}: two columns {twice[0]!r}: give each its own name, and name it once")
    frame = frame[frame[[smiles, *names]].ne("").any(axis=1)]
    parts = frame[split[0]] if split else [""] * len(frame)
    rows = zip(frame.index, frame[smiles], parts, ([] for _ in frame.index), strict=True)
    return _rows(rows), frame[names].reset_index(drop=True)


def _rows(rows: Iterable[tuple[int, str, str, list[str]]]) -> pd.DataFrame:
    rows = pd.DataFrame(rows, columns=["line", "smiles", "split", "remarks"])
    return rows.assign(skipped=rows["remarks"].astype(bool))


def read_lmdbs(folder: Path, names: Sequence[str], kind: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns rows and cells of Uni-Mol's train.lmdb, valid.lmdb and test.lmdb, which do not have the
    properties' names: () for property-1, property-2, ...; -1 is a missing class."""
    from lib.data.lmdb_reader import decode_value, lmdb_file, lmdb_items  # needs lmdb

    names, rows, cells = list(names), [], []
    for part in PARTS:
        path = lmdb_file(folder / f"{part}.lmdb")
        for number, (_, value) in enumerate(lmdb_items(path, by_number=True), start=1):
            try:
                entry, remarks = decode_value(value), []
            except ValueError as error:
                entry, remarks = {"smi": "", "target": [np.nan] * len(names)}, [str(error)]
            if "target" not in entry:
                raise UserError(f"{path} has no labels: a corpus is for prepare_smiles.py")
            names = names or [f"property-{i + 1}" for i in range(len(entry["target"]))]
            if len(entry["target"]) != len(names):
                raise UserError(f"{path}, entry {number}: {len(entry['target'])} labels, not {len(names)}")
            rows.append((number, entry["smi"], part, remarks))
            cells.append(entry["target"])
    table = pd.DataFrame(cells, columns=names)
    return _rows(rows), table.replace(MISSING_CLASS, np.nan) if kind == "classification" else table


def labels_of(cells: pd.DataFrame, kind: str, missing: Sequence[str]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Returns the labels in cells, float64, NaN where one is missing: of "classification" 0 or 1, of
    "regression" numbers that float32 can hold; and which cells are not labels."""
    text = cells.map(lambda cell: str(cell).strip().lower())
    absent = text.isin([*MISSING, *map(str.lower, missing)])
    values = text.replace(CLASSES).map(_number) if kind == "classification" else text.map(_number)
    known = values.isin([0, 1])
    if kind == "regression":
        known = values.eq(0) | values.abs().ge(SMALLEST) & values.abs().le(LARGEST)
    return values.where(known & ~absent), ~known & ~absent


def _number(text: str) -> float:
    try:
        return float(text) if "_" not in text else np.nan  # Python reads 1_000, which is nobody's number
    except ValueError:
        return np.nan


def far_labels(labels: pd.DataFrame, kind: str) -> pd.Series:
    """Returns the labels of a regression that are far from the others, as in another unit, by row and name:
    their distances from the mean of the middle 90%, in standard deviations of these, if they are more than
    FAR."""
    middle = labels[labels.ge(labels.quantile(0.05)) & labels.le(labels.quantile(0.95))]
    distances = (labels - middle.mean()).abs() / middle.std(ddof=0).where(lambda std: std > 0)
    return distances[distances.gt(FAR) & (kind == "regression")].stack().dropna()
