"""Files of molecules as records and blocks: .txt, .smi, .csv, each also as .gz, and .lmdb.

A row that cannot be read becomes a Record with a fault, and costs no other row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lib.command_line import UserError
from lib.corpora.blocks import Block
from lib.corpora.csv_reader import column_of, csv_rows, header_of
from lib.corpora.lmdb_reader import LmdbFile
from lib.preparing import opened

BLOCK_RECORDS = 4096
BLOCK_BYTES = 1 << 20  # with long lines, a block holds fewer
TEXT_FORMATS = (".txt", ".smi", ".smiles", ".csv")
LMDB = ".lmdb"
DEFAULT_COLUMN = "smiles"

_BOM = b"\xef\xbb\xbf"


class Record(NamedTuple):
    """A molecule of a file."""

    place: str  # line number from 1, or key: where to find it in its file
    content: bytes  # the SMILES as in the file; the value of an LMDB file
    fault: str = ""  # why the reader could not get the content; such a record is to be rejected


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


def blocks_of(path: Path, column: str) -> Iterator[Block]:
    """The file in blocks of Records; always the same ones.

    Raises:
        UserError: if it does not exist, is damaged, of an unknown format, or lacks the column.
    """
    if format_of(path) == LMDB:
        with LmdbFile(path) as lmdb:
            items = (Record(key.decode("ascii", "backslashreplace"), value) for key, value in lmdb.items())
            for held in _bounded(items):
                yield Block(path, held, sum(len(record.content) for record in held))
        return
    with opened(path) as (file, raw):
        before = 0
        for held in _bounded(_records(path, file, column)):
            now = path.stat().st_size if raw.closed else raw.tell()  # closed with the last row of a CSV file
            yield Block(path, held, now - before)
            before = now


def _bounded(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Lists of consecutive records, of bounded number and size."""
    held, size = [], 0
    for record in records:
        held.append(record)
        size += len(record.content)
        if len(held) == BLOCK_RECORDS or size >= BLOCK_BYTES:
            yield held
            held, size = [], 0
    if held:
        yield held


def records_in(path: Path, column: str) -> Iterator[Record]:
    """The records of a file of TEXT_FORMATS, in order; of a CSV file, those of a column.

    Raises:
        UserError: if the file cannot be read, or has no such column.
    """
    format_of(path, TEXT_FORMATS)
    with opened(path) as (file, _):
        yield from _records(path, file, column)


def _records(path: Path, file: BinaryIO, column: str) -> Iterator[Record]:
    kind = format_of(path)
    if kind == ".csv":
        yield from _csv_records(path, file, column)
        return
    for number, line in enumerate(file, 1):
        content = (line.removeprefix(_BOM) if number == 1 else line).strip()
        if kind != ".txt" and content:  # a name may follow after white space
            content = content.split(maxsplit=1)[0]
        yield Record(str(number), content)


def _csv_records(path: Path, file: BinaryIO, column: str) -> Iterator[Record]:
    rows = csv_rows(path, file, errors="surrogateescape")
    header = header_of(rows, path)
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
