"""Molecules with labels from a CSV file or from Uni-Mol's LMDBs; what cannot be used is reported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np

from fs_plugins.data.molecule_splits import PARTS
from lib.command_line import UserError
from lib.corpora.csv_reader import column_of, csv_rows, header_of
from lib.corpora.lmdb_reader import LmdbFile, LmdbValueError, decode_value, smiles_of
from lib.preparing import opened

MISSING = ("", "nan")  # labels in a CSV file
MISSING_CLASS = -1.0  # in an LMDB file


class Row(NamedTuple):
    """A molecule as it stands in its file.

    Attributes:
        line: in the file, the header being 1; in an LMDB file the number of the entry, from 1.
        labels: one for each property, NaN if missing.
        split: "train", ... if the source says so.
    """

    line: int
    smiles: str
    labels: list[float]
    split: str


class Entry(NamedTuple):
    """What happened to a molecule: a row of report.tsv."""

    line: int
    split: str
    status: str  # "skipped" or "kept"
    reason: str
    smiles: str


@dataclass
class Table:
    """The content of a source: names of the properties, the rows that can be read, and the others."""

    names: list[str]
    rows: list[Row] = field(default_factory=list)
    skipped: list[Entry] = field(default_factory=list)

    def add(
        self, line: int, smiles: str, cells: Sequence, split: str, where: str, classification: bool
    ) -> None:
        """Adds a row.

        Raises:
            UserError: for a cell that is not a label.
        """
        labels = []
        for name, cell in zip(self.names, cells, strict=True):
            try:
                labels.append(_label_of(str(cell).strip(), classification))
            except ValueError as error:
                wanted = (
                    "0, 1 or empty (--kind regression accepts any number; --label-columns names the labels)"
                    if classification
                    else "a number, or empty (--label-columns names the labels)"
                )
                raise UserError(f"{where}, {name}: the label {cell!r} is not {wanted}") from error
        self.rows.append(Row(line, smiles, labels, split))


def _label_of(text: str, classification: bool) -> float:
    if text.lower() in MISSING:
        return math.nan
    value = float(text)
    if not math.isfinite(value) or (classification and value not in (0.0, 1.0)):
        raise ValueError(text)
    return value


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
        table = Table(list(label_columns) or [name for name in header if name not in other])
        if not table.names:
            raise UserError(f"{path} has no column of labels besides {smiles_column!r}")
        at = [column_of(header, name, path, "--label-columns") for name in table.names]
        for line, cells in lines:
            if not any(cell.strip() for cell in cells):
                table.skipped.append(Entry(line, "", "skipped", "empty line", ""))
            elif len(cells) != len(header):
                reason = f"{len(cells)} cells, but the header has {len(header)}"
                smiles = cells[smiles_at] if smiles_at < len(cells) else ""
                table.skipped.append(Entry(line, "", "skipped", reason, smiles))
            else:
                split = cells[split_at] if split_at is not None else ""
                smiles, labels = cells[smiles_at].strip(), [cells[i] for i in at]
                table.add(line, smiles, labels, split, f"{path}, line {line}", classification)
    return table


def read_lmdbs(folder: Path, names: Sequence[str], classification: bool = True) -> Table:
    """The molecules of Uni-Mol's train.lmdb, valid.lmdb and test.lmdb; -1 is a missing class.

    Args:
        names: of the properties; () for property-1, property-2, ..., as the files do not have them.

    Raises:
        UserError: if a file is missing or damaged, or a label is not one.
    """
    table = Table(list(names))
    for split in PARTS:
        with LmdbFile(folder / f"{split}.lmdb") as file:
            for number, value in enumerate(file.values(), start=1):
                where = f"{folder / split}.lmdb, entry {number}"
                try:
                    molecule = decode_value(value)
                    smiles = smiles_of(molecule)
                except LmdbValueError as error:
                    table.skipped.append(Entry(number, split, "skipped", str(error), ""))
                    continue
                cells = _targets(molecule, where, classification)
                table.names = table.names or [f"property-{i + 1}" for i in range(len(cells))]
                if len(cells) != len(table.names):
                    raise UserError(f"{where}: {len(cells)} labels, but {len(table.names)} are expected")
                table.add(number, smiles, cells, split, where, classification)
    return table


def _targets(molecule: dict, where: str, classification: bool) -> list[float]:
    try:
        labels = np.asarray(molecule["target"], dtype=np.float64).reshape(-1)
    except KeyError:
        raise UserError(f"{where} has no labels under 'target': is this a file for pre-training?") from None
    except (TypeError, ValueError) as error:
        raise UserError(f"{where}: the labels under 'target' are not numbers") from error
    return [math.nan if classification and label == MISSING_CLASS else float(label) for label in labels]
