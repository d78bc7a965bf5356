"""Files of molecules as blocks: .txt, .smi, .csv, each also as .gz, and .lmdb.

What can be wrong with a file as a whole is found by ``check_input`` before any work; a row that cannot be
read becomes a Record with a fault, and costs no other row.
"""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from recipes.corpora.blocks import Block, PreparationError, Record
from recipes.corpora.lmdb_reader import LmdbFile, LmdbValueError, decode_value, smiles_of

BLOCK_RECORDS = 4096
BLOCK_BYTES = 1 << 20  # of long lines fewer make a block
FORMATS = (".txt", ".smi", ".csv", ".lmdb")
DEFAULT_COLUMN = "smiles"

_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class LmdbKeys:
    """The payload of a block of an LMDB file: a worker fetches the values itself."""

    path: Path
    keys: list[bytes]


def format_of(path: Path) -> str:
    """One of FORMATS, by the file's name.

    Raises:
        PreparationError: for another name.
    """
    name = path.name.removesuffix(".gz")
    for suffix in FORMATS:
        if name.endswith(suffix) and (name == path.name or suffix != ".lmdb"):
            return suffix
    raise PreparationError(
        f"{path}: what is in it? Molecules are read from {', '.join(FORMATS)} (all but .lmdb also as .gz)"
    )


def check_input(path: Path, column: str | None) -> None:
    """Finds out what can be wrong with a file as a whole.

    Raises:
        PreparationError: if it is not there, empty, of an unknown kind, broken, or lacks the column.
    """
    kind = format_of(path)
    if not path.is_file():
        raise PreparationError(f"{path}: there is no such file")
    if kind == ".lmdb":
        if len(_open_lmdb(path)) == 0:
            raise PreparationError(f"{path} is empty")
        return
    if path.stat().st_size == 0:
        raise PreparationError(f"{path} is empty")
    with opened(path) as (file, _):
        if kind == ".csv":
            _find_column(path, next(_rows(path, file), (1, []))[1], column)
        elif not file.readline():
            raise PreparationError(f"{path} is empty")


def blocks_of(path: Path, column: str | None) -> Iterator[Block]:
    """The file in blocks; always the same ones.

    Raises:
        PreparationError: if the file turns out to be broken.
    """
    kind = format_of(path)
    if kind == ".lmdb":
        yield from _lmdb_blocks(path)
        return
    with opened(path) as (file, raw):
        records = _csv_records(path, file, column) if kind == ".csv" else _line_records(file, kind)
        before, held, size = 0, [], 0
        for record in records:
            held.append(record)
            size += len(record.content)
            if len(held) == BLOCK_RECORDS or size >= BLOCK_BYTES:
                yield _record_block(path, held, raw.tell() - before)
                before, held, size = raw.tell(), [], 0
        if held:
            yield _record_block(path, held, path.stat().st_size - before)


def records_of(block: Block) -> Iterator[Record]:
    """The records of a block of this module; for encoders."""
    if not isinstance(block.payload, LmdbKeys):
        yield from block.payload
        return
    path, keys = block.payload.path, block.payload.keys
    for key, value in zip(keys, _open_lmdb(path).values(keys), strict=True):
        place = key.decode("ascii", errors="backslashreplace")
        try:
            if value is None:
                raise LmdbValueError("the key is gone: the file changes while it is read")
            yield Record(place, smiles_of(decode_value(value)).encode(errors="surrogateescape"))
        except LmdbValueError as error:
            yield Record(place, b"", str(error))


def _open_lmdb(path: Path) -> LmdbFile:
    """The file, opened once in each process, as LMDB demands; anew if it has been replaced."""
    version = (path.stat().st_ino, path.stat().st_mtime_ns)
    known, file = _open_lmdbs.pop(path, (None, None))
    if file is not None and known != version:
        file.close()
        file = None
    _open_lmdbs[path] = version, file or LmdbFile(path)
    return _open_lmdbs[path][1]


_open_lmdbs: dict[Path, tuple[tuple[int, int], LmdbFile]] = {}


def _record_block(path: Path, records: list[Record], weight: int) -> Block:
    identity = b"\n".join(part for r in records for part in (r.place.encode(), r.content, r.fault.encode()))
    return Block(str(path), records, identity, weight)


def _lmdb_blocks(path: Path) -> Iterator[Block]:
    file = _open_lmdb(path)
    weight, count = path.stat().st_size, len(file)
    held, done = [], 0
    for number, key in enumerate(file.keys(), 1):
        held.append(key)
        if len(held) == BLOCK_RECORDS or number == count:
            now = weight * number // count
            yield Block(str(path), LmdbKeys(path, held), b"\n".join(held), now - done)
            held, done = [], now


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """The content of a file, unpacked if it is gzip, and the file itself, whose place is the progress."""
    with open(path, "rb", buffering=0) as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if path.name.endswith(".gz") and not packed:
            raise PreparationError(f"{path} is named .gz but is not gzip: rename or fetch it again")
        file = io.BufferedReader(gzip.GzipFile(fileobj=raw) if packed else raw, 1 << 18)
        try:
            yield file, raw
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise PreparationError(
                f"{path} is a broken or cut short gzip file ({error}): download or copy it again"
            ) from error


def _line_records(file: BinaryIO, kind: str) -> Iterator[Record]:
    """A molecule a line; in .smi files a name may follow after white space."""
    for number, line in enumerate(file, 1):
        content = (line.removeprefix(_BOM) if number == 1 else line).strip()
        if kind == ".smi":
            content = content.split(maxsplit=1)[0] if content else content
        yield Record(str(number), content)


def _rows(path: Path, file: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Rows of a CSV file, each with the number of its first line; bytes that are no UTF-8 survive."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", errors="surrogateescape", newline="")
    rows = csv.reader(text, strict=True)  # else a quotation mark too many swallows the rows up to the next
    while True:
        first = rows.line_num + 1
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            raise PreparationError(
                f"{path}, line {first}: {error}; is a quotation mark missing there?"
            ) from error
        yield first, row


def separator_hint(header: Sequence[str]) -> str:
    """What to add to an error about the columns of a CSV file whose header is a single one; else nothing."""
    other = next((mark for mark in "\t;|" if len(header) == 1 and mark in header[0]), None)
    return f"; it seems to be separated by {other!r}: commas are needed" if other else ""


def _find_column(path: Path, header: list[str], column: str | None) -> int:
    wanted = column or DEFAULT_COLUMN
    if wanted not in header:
        shown = ", ".join(map(repr, header[:12])) + (", ..." if len(header) > 12 else "")
        hint = separator_hint(header)
        raise PreparationError(f"{path} has no column {wanted!r}: name one of {shown} with --column{hint}")
    return header.index(wanted)


def _csv_records(path: Path, file: BinaryIO, column: str | None) -> Iterator[Record]:
    rows = _rows(path, file)
    header = next(rows, (1, []))[1]
    index = _find_column(path, header, column)
    for number, row in rows:
        if not row:
            yield Record(str(number), b"")
        elif len(row) <= index:
            fault = f"missing column: the row has {len(row)} of {len(header)} fields"
            yield Record(str(number), ",".join(row).encode(errors="surrogateescape"), fault)
        else:
            yield Record(str(number), row[index].strip().encode(errors="surrogateescape"))
