"""Files of molecules as records: .txt, .smi, .csv, each also as .gz, and .lmdb.

A row that cannot be read becomes a Record with a fault, and costs no other row.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lib.command_line import UserError
from lib.corpora.lmdb_reader import lmdb_items
from lib.preparing import opened

TEXT_FORMATS = (".txt", ".smi", ".smiles", ".csv")
LMDB = ".lmdb"
DEFAULT_COLUMN = "smiles"
_BOM = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """A molecule of a file."""

    place: str  # line number from 1, or key: where to find it in its file
    content: bytes  # the SMILES as in the file; the value of an LMDB file
    fault: str = ""  # why the reader could not get the content; such a record is to be rejected

    @property
    def size(self) -> int:
        return len(self.content)


def format_of(path: Path, formats: Sequence[str] = (*TEXT_FORMATS, LMDB)) -> str:
    """One of ``formats``, by the file's name.

    Raises:
        UserError: for another name.
    """
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix in formats and (suffix != LMDB or not path.name.endswith(".gz")):
        return suffix
    raise UserError(
        f"{path} has an unknown format: molecules are read from {', '.join(formats)}"
        f"{' (all but .lmdb' if LMDB in formats else ' ('} also as .gz): rename or convert it"
    )


def records_in(path: Path, column: str) -> Iterator[Record]:
    """The records of a file, in order; of a CSV file, those of a column.

    Raises:
        UserError: if it does not exist, is damaged, of an unknown format, or lacks the column.
    """
    kind = format_of(path)
    if kind == LMDB:
        for key, value in lmdb_items(path):
            yield Record(key.decode("ascii", "backslashreplace"), value)
        return
    with opened(path) as file:
        if kind == ".csv":
            yield from _csv_records(path, column, file)
            return
        for number, line in enumerate(file, 1):
            content = (line.removeprefix(_BOM) if number == 1 else line).strip()
            if kind != ".txt" and content:  # a name may follow after white space
                content = content.split(maxsplit=1)[0]
            yield Record(str(number), content)


def _csv_records(path: Path, column: str, file: BinaryIO) -> Iterator[Record]:
    rows = csv_rows(path, file, errors="surrogateescape")
    _, header = next(rows)
    index = column_of(header, column, path, "--smiles-column")
    for number, row in rows:
        if not row:
            yield Record(str(number), b"")
        elif len(row) <= index or (index and any(cell.strip() for cell in row[len(header) :])):
            # with a comma too many, another cell may be where the molecule should be
            fault = f"wrong number of cells: {len(row)}, but the header has {len(header)}"
            yield Record(str(number), ",".join(row).encode(errors="surrogateescape"), fault)
        else:
            yield Record(str(number), row[index].strip().encode(errors="surrogateescape"))


def csv_rows(path: Path, file: BinaryIO, errors: str = "strict") -> Iterator[tuple[int, list[str]]]:
    """(number of its first line, cells) of each row, the header first, empty ones (no cells) included;
    strict about quoting, as a stray quotation mark would otherwise swallow the rows up to the next one.

    Args:
        path: for messages.
        file: its content, see ``lib.files.opened``.
        errors: what to do about invalid UTF-8, see ``bytes.decode``.

    Raises:
        UserError: if there is no header; for wrong quoting, or invalid UTF-8 if ``errors`` is "strict".
    """
    rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8-sig", errors=errors, newline=""), strict=True)
    line = 1
    try:
        for cells in rows:
            yield line, [name.strip() for name in cells] if line == 1 else cells
            line = rows.line_num + 1
    except csv.Error as error:
        raise UserError(f"{path}, line {line}: {error}: is a quotation mark missing there?") from error
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UserError(f"{path} is not UTF-8 (byte {byte:#04x}): convert it to UTF-8") from error
    if line == 1:
        raise UserError(f"{path} is empty")


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
