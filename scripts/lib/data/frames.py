"""Tables and files of SMILES as pandas' data frames: CSV with any separator, a molecule a line."""

import argparse
import codecs
import csv
import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Self

import pandas as pd
from lib.command_line import UserError
from lib.data.text_files import opened, suffix_of

SEPARATORS = ",\t;|"
TABLES = (".csv", ".tsv", ".tab")  # other files are tables if their first line names the column
NAME = "name"  # what follows the SMILES in a line
ROWS = 50_000  # rows of a frame


@dataclass(frozen=True)
class TableFormat:
    """How to read a table."""

    column: str = "smiles"  # of the SMILES; upper and lower case are the same
    separator: str | None = None  # None: the one at which the first line has the column
    encoding: str | None = None  # None: UTF-8
    header: bool = True  # whether the first line names the columns; otherwise they are 1, 2, ...

    @classmethod
    def of(cls, args: argparse.Namespace, column: str = "smiles") -> Self:
        """Returns what the arguments of :func:`add_table_arguments` ask for; ``column`` is the default."""
        column = args.smiles_column or (column if args.header else "1")
        return cls(column, args.separator, args.encoding, args.header)


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --smiles-column, --no-header, --separator and --encoding."""
    add = parser.add_argument
    add("--smiles-column", metavar="NAME", help="of a table (default: smiles)")
    about = "the table's first line is a row; its columns are named 1, 2, ... (default SMILES: 1)"
    add("--no-header", dest="header", action="store_false", help=about)
    add("--separator", metavar="C", help="of a table's cells (default: detected)")
    add("--encoding", help="of a table, such as cp1252 or utf-16 (default: UTF-8)")


def read_table(path: Path, form: TableFormat) -> pd.DataFrame:
    """Returns all rows; see :func:`frames_of`. Raises UserError if there is none, too."""
    frame = pd.concat(frames_of(path, form))
    if frame.empty:
        raise UserError(f"{path} is empty, or has a header alone: give a file with molecules")
    return frame


def frames_of(path: Path, form: TableFormat) -> Iterator[pd.DataFrame]:
    """Yields the rows of a table, or the lines of a file of SMILES, at most ROWS at a time.

    Cells are text, "" if missing; the index has the line on which a row ends. Blank rows are left out. A file
    of SMILES has the columns ``form.column`` and NAME. A row with more cells than the header becomes one of
    cells that say so, neither molecules nor numbers.

    Raises:
        UserError: if the file is not text, a row is no CSV, or the column of the SMILES is not there once.
    """
    encoding, errors = form.encoding or "utf-8-sig", "strict" if form.encoding else _kept(path)
    with opened(path) as file, io.TextIOWrapper(file, encoding, errors, newline="") as text:
        first = next((line for line in map(str.strip, text) if line), "")
        if "\0" in first:
            raise UserError(f"{path} is not text in UTF-8: save it as .csv or .smi, or give its --encoding")
        text.seek(0)
        marks = [mark for mark in SEPARATORS if form.column.lower() in _cells(first, mark)]
        separator = form.separator or max(marks or SEPARATORS, key=first.count)
        if suffix_of(path) in TABLES or form.column.lower() in _cells(first, separator):
            reader = _rows(text, separator, path)
            line, head = next(reader, (0, []))
            rows = chain([] if form.header or not head else [(line, head)], reader)
            names = [name.strip() if form.header else str(i) for i, name in enumerate(head, 1)]
        else:
            names = [form.column, NAME]
            rows = ((line, row.strip().split(maxsplit=1)) for line, row in enumerate(text, 1) if row.strip())
            if first.lower().removeprefix("#").split()[:1] == [form.column.lower()]:
                next(rows)
        while True:
            block = [*islice(rows, ROWS)]
            lines, cells = [line for line, _ in block], [_fitted(cells, len(names)) for _, cells in block]
            frame = pd.DataFrame(cells, lines, names, dtype=object)
            column_of(frame, form.column, path)
            yield frame
            if len(block) < ROWS:
                return


def column_of(frame: pd.DataFrame, name: str, path: Path) -> str:
    """Returns the column of that name, or, if there is none, one that differs in upper and lower case.
    Raises UserError if there is none either, or several of the same name."""
    same = [column for column in frame if column.lower() == name.lower()]
    if not any(frame.columns):
        raise UserError(f"{path} is empty: give a file with molecules")
    if not same:
        shown = ", ".join(map(ascii, frame.columns[:20])) + (", ..." if len(frame.columns) > 20 else "")
        raise UserError(
            f"{path} has no column {name!r}, but {shown}: see --smiles-column, --no-header and --encoding"
        )
    chosen = name if name in same else same[0]
    if same.count(chosen) > 1:
        raise UserError(f"{path} has several columns {chosen!r}: rename all but one")
    return chosen


def _rows(text: io.TextIOBase, separator: str, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yields the rows of a table, from the first that is not blank, and the line on which each ends."""
    # strict: a stray quotation mark would swallow the rows up to the next one, as pandas has it
    csv.field_size_limit((1 << 31) - 1)  # a cell may be long, such as a block of coordinates
    reader = csv.reader(text, delimiter=separator, strict=True)
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                yield reader.line_num, cells
    except csv.Error as error:
        raise UserError(f"{path}, line {reader.line_num}: {error}") from error


def _kept(path: Path) -> str:
    """Returns what to do about bytes that are not UTF-8: they stay as escapes, of which it is said once."""
    said = False

    def escape(error: UnicodeError) -> tuple[str, int]:
        nonlocal said
        if not said:
            byte = f"{error.object[error.start]:#04x}"
            print(
                f"{path}: bytes that are not UTF-8 ({byte}) stay as escapes: see --encoding", file=sys.stderr
            )
        said = True
        return codecs.backslashreplace_errors(error)

    codecs.register_error("escape", escape)
    return "escape"


def _fitted(cells: list[str], columns: int) -> list[str]:
    if any(map(str.strip, cells[columns:])):
        return [f"{len(cells)} cells, the header has {columns}: {', '.join(cells)}"] * columns
    return [*cells, *[""] * columns][:columns]


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip(' "').lower() for cell in line.split(separator)]
