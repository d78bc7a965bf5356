"""Molecules with labels from a CSV file or from Uni-Mol's LMDBs; what cannot be used is reported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fs_plugins.data.molecule_splits import PARTS
from lib.command_line import UserError
from lib.corpora.csv_reader import column_of, csv_rows, header_of
from lib.corpora.lmdb_reader import LmdbFile, LmdbValueError, decode_value, smiles_of
from lib.files import opened

MISSING = ("", "nan")  # labels in a CSV file
MISSING_CLASS = -1.0  # in an LMDB file


@dataclass
class Row:
    """A molecule.

    Attributes:
        line: its line in the file, the header being 1; in an LMDB file the number of the entry, from 1.
        smiles: as in the file.
        labels: one for each property, NaN if missing.
        split: "train", ... if the source says so.
    """

    line: int
    smiles: str
    labels: list[float]
    split: str = ""


@dataclass
class Table:
    """The content of a source.

    Attributes:
        names: of the properties.
        rows: those that can be read.
        skipped: (line, SMILES, reason, split) of those that cannot.
    """

    names: list[str]
    rows: list[Row] = field(default_factory=list)
    skipped: list[tuple[int, str, str, str]] = field(default_factory=list)


def label_of(cell: str, classification: bool) -> float:
    """The label in a cell, NaN if empty.

    Raises:
        ValueError: if it is something else.
    """
    text = cell.strip()
    if text.lower() in MISSING:
        return math.nan
    value = float(text)
    if not math.isfinite(value) or (classification and value not in (0.0, 1.0)):
        raise ValueError(text)
    return value


def labels_of(cells: Sequence, names: Sequence[str], where: str, classification: bool) -> list[float]:
    """The labels of a row.

    Raises:
        UserError: at the first that is not one.
    """
    labels = []
    for name, cell in zip(names, cells, strict=True):
        try:
            labels.append(label_of(str(cell), classification))
        except ValueError as error:
            wanted = (
                "0, 1 or empty (--kind regression accepts any number; --label-columns names the labels)"
                if classification
                else "a number, or empty (--label-columns names the labels)"
            )
            raise UserError(f"{where}, {name}: the label {cell!r} is not {wanted}") from error
    return labels


def _check_once(names: Sequence[str]) -> None:
    if repeated := [name for name in names if names.count(name) > 1]:
        raise UserError(f"--label-columns has {repeated[0]!r} more than once: name each label once")


def read_csv(
    path: Path,
    smiles_column: str,
    label_columns: Sequence[str] = (),
    ignored: Sequence[str] = (),
    classification: bool = True,
    split_column: str | None = None,
) -> Table:
    """The molecules of a CSV file, plain or gzip; without ``label_columns`` all other columns are labels.

    Raises:
        UserError: if it cannot be read, a column is missing, or a label is not one.
    """
    with opened(path) as (file, _):
        lines = csv_rows(path, file)
        header = header_of(lines, path)
        smiles_at = column_of(header, smiles_column, path, "--smiles-column")
        split_at = column_of(header, split_column, path, "--split-column") if split_column else None
        other = {smiles_column, split_column, *ignored}
        names = list(label_columns) or [name for name in header if name not in other]
        if not names:
            raise UserError(f"{path} has no column of labels besides {smiles_column!r}")
        _check_once(label_columns)
        at = [column_of(header, name, path, "--label-columns") for name in names]
        table = Table(names)
        for line, cells in lines:
            if not any(cell.strip() for cell in cells):
                table.skipped.append((line, "", "empty line", ""))
            elif len(cells) != len(header):
                reason = f"{len(cells)} cells, but the header has {len(header)}"
                table.skipped.append((line, cells[smiles_at] if smiles_at < len(cells) else "", reason, ""))
            else:
                labels = labels_of([cells[i] for i in at], names, f"{path}, line {line}", classification)
                split = cells[split_at] if split_at is not None else ""
                table.rows.append(Row(line, cells[smiles_at].strip(), labels, split))
    return table


def read_lmdbs(folder: Path, names: Sequence[str], classification: bool = True) -> Table:
    """The molecules of Uni-Mol's train.lmdb, valid.lmdb and test.lmdb; -1 is a missing class.

    Args:
        names: of the properties; () for property-1, property-2, ..., as the files do not have them.

    Raises:
        UserError: if a file is missing or damaged, or a label is not one.
    """
    names = list(names)
    _check_once(names)
    table = Table(names)
    for split in PARTS:
        with LmdbFile(folder / f"{split}.lmdb") as file:
            keys = sorted(file.keys(), key=lambda key: (len(key), key))  # "10" after "9"
            for number, value in enumerate(file.values(keys), start=1):
                where = f"{folder / split}.lmdb, entry {number}"
                try:
                    molecule = decode_value(value)
                    smiles = smiles_of(molecule)
                except LmdbValueError as error:
                    table.skipped.append((number, "", str(error), split))
                    continue
                cells = _targets(molecule, where, classification)
                if not names:
                    names += [f"property-{i + 1}" for i in range(len(cells))]
                if len(cells) != len(names):
                    raise UserError(f"{where}: {len(cells)} labels, but {len(names)} are expected")
                table.rows.append(Row(number, smiles, labels_of(cells, names, where, classification), split))
    if not table.rows and not table.skipped:
        raise UserError(f"the files in {folder} are empty")
    return table


def _targets(molecule: dict, where: str, classification: bool) -> list[float]:
    if "target" not in molecule:
        raise UserError(f"{where} has no labels under 'target': is this a file for pre-training?")
    try:
        labels = np.asarray(molecule["target"], dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: the labels under 'target' are not numbers") from error
    return [math.nan if classification and label == MISSING_CLASS else float(label) for label in labels]
