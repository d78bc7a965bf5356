"""Tables: CSV with any separator, and Parquet. (pandas pads short rows, takes the first column of long ones
for an index, and does not say on which line a row is.)"""

import argparse
import codecs
import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Self, TextIO

from lib.command_line import UserError
from lib.data.parquet import PARQUET, columns_of, rows_of
from lib.data.text_files import invalid_byte, opened

SEPARATORS = ",\t;|"
SMILES_OPTION = "--smiles-column (and --no-header, if the first line is a row)"


@dataclass(frozen=True)
class TableFormat:
    """How to read a table."""

    column: str = "smiles"  # column of the SMILES, see :func:`column_of`
    separator: str | None = None  # separator of cells; None: the one at which the first line has that column
    # None: UTF-8, in which invalid bytes are kept (as Python's "surrogateescape" does): SMILES and numbers
    # are ASCII in nearly every encoding
    encoding: str | None = None
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


def table_rows(path: Path, form: TableFormat) -> Iterator[tuple[int, list[str]]]:
    """Yields (number of its first line, cells) of each row, the header first, empty ones (no cells) included.
    Of Parquet the lines are those of a CSV file with the same rows.

    Strict about quoting, as a stray quotation mark would otherwise swallow the rows up to the next one.
    """
    if path.suffix.lower() == PARQUET:
        yield 1, (columns := columns_of(path))
        for number, values in enumerate(rows_of(path, columns), start=2):
            yield number, ["" if value is None else str(value) for value in values]
        return
    csv.field_size_limit(1 << 24)
    with opened(path) as file:
        lines, begin = text_of(file, form, newline=""), 1
        first, separator = next(lines, ""), form.separator
        if excel := re.fullmatch(r'"?sep=(.)"?\s*', first, re.IGNORECASE):
            first, separator, begin = next(lines, ""), separator or excel[1], 2
        separator = separator or separator_of(first, form.column)
        rows, line = csv.reader(chain([first], lines), strict=True, delimiter=separator), begin
        try:
            for cells in rows:
                if line == begin and form.header:
                    cells = [name.strip() for name in cells]
                elif line == begin:
                    yield 0, [str(i) for i in range(1, len(cells) + 1)]
                yield line, cells
                line = rows.line_num + begin
        except csv.Error as error:
            raise UserError(
                f"{path}: the row that begins on line {line} is not CSV ({error}): double a quotation mark "
                "within a cell, and put quotation marks around the cell"
            ) from error


def text_of(file: BinaryIO, form: TableFormat, newline: str | None = None) -> TextIO:
    """Returns the text of an open file, in the encoding of ``form``."""
    encoding = codecs.lookup(form.encoding or "utf-8").name
    encoding = "utf-8-sig" if encoding == "utf-8" else encoding
    return io.TextIOWrapper(file, encoding, "strict" if form.encoding else "surrogateescape", newline)


def separator_of(header: str, column: str) -> str:
    """Returns the separator at which a header has the column; if none, the most frequent one."""
    cells = {mark: [cell.strip('" \r\n') for cell in header.split(mark)] for mark in SEPARATORS}
    named = [mark for mark in SEPARATORS if len(cells[mark]) > 1 and columns_named(column, cells[mark])]
    return named[0] if named else max(SEPARATORS, key=header.count)


def columns_named(name: str, header: Sequence[str]) -> list[int]:
    """Returns the indices of the columns of that name or, if there is none, of those that differ in case."""
    exact = [i for i, head in enumerate(header) if head == name]
    return exact or [i for i, head in enumerate(header) if head.lower() == name.lower()]


def column_of(header: Sequence[str], name: str, path: Path, option: str) -> int:
    """Returns the index of a column, which may be written in other letter case, such as SMILES. Raises
    UserError if it does not exist, or more than once, with the ``option`` that chooses it."""
    if len(columns := columns_named(name, header)) == 1 and not _is_row(header, columns[0], option):
        return columns[0]
    what = ("no column", "a molecule, not a column,", f"{len(columns)} columns")[min(len(columns), 2)]
    shown = ", ".join(map(ascii, header[:20])) + (", ..." if len(header) > 20 else "")
    if any(map(invalid_byte, header)):
        shown += "; these are not UTF-8: give --encoding, such as cp1252"
    raise UserError(f"{path} has {what} {name!r}: its columns are {shown}; choose with {option}")


def _is_row(header: Sequence[str], column: int, option: str) -> bool:
    """Returns whether what was taken for a header is a row, which would be lost: the column of the SMILES has
    a molecule there, and that is longer than a name such as C, or no other cell is a name."""
    from fs_plugins.data.molecules import is_molecule  # takes seconds

    others = [cell for i, cell in enumerate(header) if i != column]
    named = any(re.search(r"[^\d.,eE+-]", cell) for cell in others)
    likely = not named or len(header[column]) > 2
    return option == SMILES_OPTION and likely and is_molecule(header[column])


def cells_fault(row: Sequence[str], header: Sequence[str]) -> str:
    """Says that a row has fewer cells than the header, or more which are not empty, so that one may stand in
    another's place; returns "" if neither."""
    if len(row) < len(header) or any(cell.strip() for cell in row[len(header) :]):
        return f"wrong number of cells: {len(row)}, but the header has {len(header)}"
    return ""
