"""CSV files of molecules, row by row."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from lib.command_line import UserError


def csv_rows(path: Path, file: BinaryIO, errors: str = "strict") -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each row, empty ones (no cells) included; strict about quoting,
    as a stray quotation mark would otherwise swallow the rows up to the next one.

    Args:
        path: for messages.
        file: its content, see ``lib.files.opened``.
        errors: what to do about invalid UTF-8, see ``bytes.decode``.

    Raises:
        UserError: for wrong quoting, or invalid UTF-8 if ``errors`` is "strict".
    """
    rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8-sig", errors=errors, newline=""), strict=True)
    line = 1
    try:
        for cells in rows:
            yield line, cells
            line = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}, line {line}: {error}: is a quotation mark missing there?") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UserError(f"{path} is not UTF-8 (byte {byte:#04x}): convert it to UTF-8") from error


def header_of(rows: Iterator[tuple[int, list[str]]], path: Path) -> list[str]:
    """The names of the columns, from the first row.

    Raises:
        UserError: if there is none.
    """
    first = next(rows, None)
    if first is None:
        raise UserError(f"{path} is empty")
    return [name.strip() for name in first[1]]


def column_of(header: Sequence[str], name: str, path: Path, option: str) -> int:
    """The index of a column.

    Args:
        option: that chooses the column.

    Raises:
        UserError: if it does not exist, or more than once.
    """
    if header.count(name) == 1:
        return header.index(name)
    what = "no column" if name not in header else f"{header.count(name)} columns"
    shown = ", ".join(header[:20]) + (", ..." if len(header) > 20 else "")
    other = next((mark for mark in "\t;|" if len(header) == 1 and mark in header[0]), None)
    hint = f" It seems to be separated by {other!r}: convert it to commas." if other else ""
    raise UserError(f"{path} has {what} {name!r}: its columns are {shown}; choose with {option}.{hint}")
