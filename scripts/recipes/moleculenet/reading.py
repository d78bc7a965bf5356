"""Molecules with labels from a CSV file or Uni-Mol's LMDBs; what cannot be used is told, never lost."""

from __future__ import annotations

import csv
import gzip
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from recipes.corpora.readers import separator_hint

MISSING = ("", "nan")
UNREADABLE = (UnicodeDecodeError, gzip.BadGzipFile, EOFError, zlib.error)


class InputError(ValueError):
    """Input that cannot be used as it is; the message says where and what to do."""


@dataclass
class Row:
    """A molecule.

    Attributes:
        line: line of the file, the header being 1; of an LMDB the number of the entry, from 1.
        smiles: as it stands there.
        labels: one for each property, NaN where there is none.
        part: "train", ... where the source says so.
    """

    line: int
    smiles: str
    labels: list[float]
    part: str = ""


@dataclass
class Table:
    """What a source holds.

    Attributes:
        names: of the properties.
        rows: those that can be read.
        skipped: (line, SMILES, reason, part) of those that cannot.
    """

    names: list[str]
    rows: list[Row] = field(default_factory=list)
    skipped: list[tuple[int, str, str, str]] = field(default_factory=list)


def open_text(path: Path):
    """A text file, packed with gzip if its name ends in .gz; a byte order mark is skipped."""
    if not path.is_file():
        raise InputError(f"{path} is not there" if not path.exists() else f"{path} is no file")
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def unreadable(path: Path, error: Exception) -> str:
    """What to say of a file whose reading ended with one of UNREADABLE."""
    if isinstance(error, UnicodeDecodeError):
        return f"{path} is not in UTF-8 (byte {error.object[error.start]:#04x}): save it as UTF-8"
    return f"{path} is a broken or cut short gzip file ({error}): download or copy it again"


def csv_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """(line number, cells) of each line of a CSV file, empty lines (no cells) included.

    Raises:
        InputError: if it is not there, packed or encoded otherwise, or no CSV.
    """
    end = 0
    try:
        with open_text(path) as file:
            reader = csv.reader(file, strict=True)
            for cells in reader:
                yield end + 1, cells
                end = reader.line_num
    except csv.Error as error:
        raise InputError(
            f"{path}, line {end + 1}: {error}; is there a quotation mark too many, or too few?"
        ) from error
    except UNREADABLE as error:
        raise InputError(unreadable(path, error)) from error


def column_of(header: Sequence[str], name: str, path: Path) -> int:
    """The index of a column.

    Raises:
        InputError: if it is not there, or there twice.
    """
    if header.count(name) != 1:
        shown = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
        what = "no column" if name not in header else f"{header.count(name)} columns"
        raise InputError(f"{path} has {what} {name!r}: its columns are {shown}{separator_hint(header)}")
    return header.index(name)


def label_of(cell: str, classification: bool) -> float:
    """The label in a cell, NaN for none.

    Raises:
        ValueError: if there is something else.
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
        InputError: at the first that is not one.
    """
    labels = []
    for name, cell in zip(names, cells, strict=True):
        try:
            labels.append(label_of(str(cell), classification))
        except ValueError as error:
            wanted = (
                "0, 1 or empty (--kind regression takes any number; --label-columns names the labels)"
                if classification
                else "a number, or empty (--label-columns names the labels)"
            )
            raise InputError(f"{where}, {name}: the label {cell!r} is not {wanted}") from error
    return labels


def read_csv(
    path: Path,
    smiles_column: str,
    label_columns: Sequence[str] = (),
    ignored: Sequence[str] = (),
    classification: bool = True,
    split_column: str | None = None,
) -> Table:
    """The molecules of a CSV file with a header; without ``label_columns`` all others are labels.

    Raises:
        InputError: if it is no such file, a column is missing, or a label is not one.
    """
    lines = csv_rows(path)
    try:
        _, header = next(lines)
    except StopIteration:
        raise InputError(f"{path} is empty") from None
    header = [name.strip() for name in header]
    smiles_at = column_of(header, smiles_column, path)
    split_at = column_of(header, split_column, path) if split_column else None
    other = {smiles_column, split_column, *ignored}
    names = list(label_columns) or [name for name in header if name not in other]
    if not names:
        raise InputError(f"{path} has no column of labels beside {smiles_column!r}")
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError(f"--label-columns has {repeated[0]!r} more than once: name each column once")
    at = [column_of(header, name, path) for name in names]
    table = Table(names)
    for line, cells in lines:
        if not any(cell.strip() for cell in cells):
            table.skipped.append((line, "", "empty line", ""))
        elif len(cells) != len(header):
            reason = f"{len(cells)} cells where the header has {len(header)}"
            table.skipped.append((line, cells[smiles_at] if smiles_at < len(cells) else "", reason, ""))
        else:
            labels = labels_of([cells[i] for i in at], names, f"{path}, line {line}", classification)
            part = cells[split_at] if split_at is not None else ""
            table.rows.append(Row(line, cells[smiles_at].strip(), labels, part))
    return table
