"""Tables with a column of SMILES: CSV, with any separator and in any encoding, and Parquet."""

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
from lib.data.kinds import opened
from lib.data.parquet import PARQUET, columns_of, rows_of

SEPARATORS = ",\t;|"
LONGEST = 100_000  # characters of a header
LARGEST = 1 << 24  # characters of a cell
SEP = re.compile(r"sep=(.)\s*", re.IGNORECASE)  # a first line by which Excel knows the separator


@dataclass(frozen=True)
class TableFormat:
    """How to read a table."""

    column: str = "smiles"  # of the SMILES, as of :func:`column_of`
    separator: str | None = None  # of cells; None: the one at which the first line has that column
    # None: UTF-8, or UTF-16 if there is its byte order mark. Bytes that are not UTF-8 are kept as they are
    # (as Python's "surrogateescape" does): SMILES and numbers are ASCII in every encoding.
    encoding: str | None = None

    @classmethod
    def of(cls, args: argparse.Namespace, column: str = "smiles") -> Self:
        """What the arguments of :func:`add_table_arguments` ask for; ``column`` is the default."""
        return cls(args.smiles_column or column, args.separator, args.encoding)


def add_table_arguments(parser: argparse.ArgumentParser) -> None:
    """--smiles-column, --separator and --encoding."""
    add = parser.add_argument
    add("--smiles-column", metavar="NAME", help="of a table (default: smiles)")
    add("--separator", type=_separator, metavar="C", help="of a table's cells, or 'tab' (default: detected)")
    about = "of a table, such as cp1252 (default: UTF-8, or UTF-16 by its mark)"
    add("--encoding", type=_encoding, help=about)


def _separator(text: str) -> str:
    mark = {"tab": "\t", "\\t": "\t"}.get(text, text)
    if len(mark) != 1 or mark in '"\r\n':
        raise argparse.ArgumentTypeError(f"{text!r}: give one character, or 'tab'")
    return mark


def _encoding(text: str) -> str:
    try:
        "".encode(text)
    except LookupError as error:
        raise argparse.ArgumentTypeError(f"{error}: give a name such as cp1252") from None
    return text


def is_utf16(file: BinaryIO) -> bool:
    """Whether an open file begins with UTF-16's byte order mark."""
    return file.peek(2)[:2] in (b"\xff\xfe", b"\xfe\xff")


def text_of(file: BinaryIO, encoding: str | None) -> TextIO:
    """The text of an open file; see :class:`TableFormat`."""
    name = codecs.lookup(encoding or ("utf-16" if is_utf16(file) else "utf-8")).name
    errors = "strict" if encoding or name == "utf-16" else "surrogateescape"
    return io.TextIOWrapper(file, "utf-8-sig" if name == "utf-8" else name, errors, newline="")


def table_rows(
    path: Path, form: TableFormat, only: Sequence[str] | None = None
) -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each row, the header first, empty ones (no cells) included; of
    Parquet the lines are those of a CSV file with the same rows, and no column is read but ``only`` these,
    if it has any of them.

    Strict about quoting, as a stray quotation mark would otherwise swallow the rows up to the next one.
    Raises UserError if there is no header; for wrong quoting, or text that is not of ``form.encoding``.
    """
    if path.suffix.lower() == PARQUET:
        columns = columns_of(path)
        named = {i for name in only or () for i in columns_named(name, columns)}
        columns = [name for i, name in enumerate(columns) if i in named or not named]
        yield 1, columns
        for number, values in enumerate(rows_of(path, columns), start=2):
            yield number, ["" if value is None else str(value) for value in values]
        return
    csv.field_size_limit(LARGEST)
    line = start = 1
    try:
        with opened(path) as file:
            lines = text_of(file, form.encoding)
            first = next(lines, "")
            if given := SEP.fullmatch(first):
                first, line, start = next(lines, ""), 2, 2
            while first.count('"') % 2 and len(first) < LONGEST and (more := next(lines, "")):
                first += more  # the header has a line break in a cell
            separator = form.separator or (given[1] if given else separator_of(first, form.column))
            lines = chain(io.StringIO(first, newline=""), lines)
            rows = csv.reader(lines, strict=True, delimiter=separator)
            for cells in rows:
                yield line, [name.strip() for name in cells] if line == start else cells
                line = start + rows.line_num
    except csv.Error as error:
        raise UserError(f"{path}, line {line}: {error}: is a quotation mark missing there?") from error
    except UnicodeError as error:
        raise UserError(f"{path}, line {line} or later: {error}: choose with --encoding") from error
    if line == start:
        raise UserError(f"{path} is empty")


def separator_of(header: str, column: str) -> str:
    """The separator at which a header has the column; if none, that of the most cells."""
    header = header[:LONGEST]  # what is no header may be too much for csv
    if '"' not in header:
        header = header.split("\r")[0]
    readers = {mark: csv.reader(io.StringIO(header, newline=""), delimiter=mark) for mark in SEPARATORS}
    cells = {mark: next(reader, []) for mark, reader in readers.items()}
    named = [mark for mark in SEPARATORS if columns_named(column, [*map(str.strip, cells[mark])])]
    return named[0] if named else max(SEPARATORS, key=lambda mark: len(cells[mark]))


def columns_named(name: str, header: Sequence[str]) -> list[int]:
    """The indices of the columns of that name or, if there is none, of those that differ in case alone."""
    exact = [i for i, head in enumerate(header) if head == name]
    return exact or [i for i, head in enumerate(header) if head.lower() == name.lower()]


def column_of(header: Sequence[str], name: str, path: Path, option: str) -> int:
    """The index of a column, which may be written in other letter case, such as SMILES. Raises UserError if
    it does not exist, or more than once, with the ``option`` that chooses it."""
    if len(columns := columns_named(name, header)) == 1:
        return columns[0]
    what = f"{len(columns)} columns" if columns else "no column"
    shown = ", ".join(map(repr, header[:20])) + (", ..." if len(header) > 20 else "")
    raise UserError(f"{path} has {what} {name!r}: its columns are {shown}; choose with {option}")
