"""Files of text as documents, in several layouts; where documents begin and end, nothing more.

paragraphs    one paragraph per line, an empty line between documents
books         one document per file; paragraphs are lines, or what is between empty lines if there are any
wikiextractor <doc ...> ... </doc> as WikiExtractor writes it: one paragraph per line, the title first
json          {"text": "..."}, one document per line
table         CSV or TSV, one document per row
parquet       one document per row

So that memory is bounded, a document of more than 16 MB becomes several, and a line of more than 100 kB
several, cut at a blank.
"""

import json
import re
from collections.abc import Iterable, Iterator
from glob import glob
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lib.command_line import UserError
from lib.data.parquet import PARQUET, columns_of, rows_of
from lib.data.tables import TableFormat, cells_fault, column_of, table_rows
from lib.data.text_files import BOM, MOST_BYTES, bounded_lines, invalid_byte, opened, suffix_of

PARAGRAPHS, BOOKS, WIKIEXTRACTOR, JSON, TABLE = "paragraphs", "books", "wikiextractor", "json", "table"
SUFFIXES = {".csv": TABLE, ".tsv": TABLE, ".json": JSON, ".jsonl": JSON, PARQUET: "parquet"}
STARTS = {b"<doc ": WIKIEXTRACTOR, b"{": JSON}  # WikiExtractor's files have no ending
MARKUP = re.compile(rb"<(mediawiki|\?xml|!doctype|html)\b|%PDF-", re.IGNORECASE)
PLAIN = (PARAGRAPHS, BOOKS, TABLE)  # layouts that nothing tells
COLUMN = "text"
TEXT_OPTION = "--text-column (by its number, if the first line is a row)"
LONGEST = 100_000  # bytes of a line, and characters of a paragraph
WIKIPEDIA = {"id", "url", "title"}  # columns of WikiExtractor and wikimedia's sets beside the text
LOST = "lost: "  # how the fault of a document begins of which nothing is kept
OUTSIDE = f"{LOST}outside <doc> and </doc>"
_LOGS = re.compile("(^|/)_")  # names such as _SUCCESS, no part of a corpus

Line = tuple[int, bytes]  # number from 1, content without the line end


class Document(NamedTuple):
    """A document as its file has it."""

    layout: str  # PARAGRAPHS, BOOKS, WIKIEXTRACTOR, or JSON (any with a column of text)
    lines: list[Line]
    fault: str = ""  # reason for which it cannot be used

    @property
    def size(self) -> int:
        return sum(len(content) for _, content in self.lines)


def layouts_of(given: Iterable[Path], plain: str = PARAGRAPHS) -> dict[Path, str]:
    """Returns the files of a corpus, in the order given and those of folders sorted, with their layouts: by
    their names, or how they begin; that of other text is ``plain``. Raises IsADirectoryError for a folder
    without files, and UserError for a file that is not text in UTF-8."""
    layouts = {}
    for place in given:
        files = (_files_in(place) if place.is_dir() else []) or [place]  # an empty folder is no file
        layouts |= {path: SUFFIXES.get(suffix_of(path)) or _begun(path, plain) for path in files}
    for path in (path for path, layout in layouts.items() if layout == JSON):
        with opened(path) as file:
            first = file.readline(1 << 10).removeprefix(BOM).strip()
        if first == b"{" or first.startswith(b"["):
            lines = "a document a line, {...}, such as jq -c '.[]' writes"
            raise UserError(f"{path} begins with {first[:20].decode(errors='replace')!r}: give {lines}")
    return layouts


def _begun(path: Path, plain: str) -> str:
    with opened(path) as file:
        start = file.read(1 << 16)
    start = start.removeprefix(BOM).lstrip()
    if b"\0" in start or MARKUP.match(start):  # archives and UTF-16, parts of which would pass for text
        raise UserError(f"{path} is not text in UTF-8: extract its text (Wikipedia: see docs/data.md)")
    return next((layout for begin, layout in STARTS.items() if start.startswith(begin)), plain)


def _files_in(place: Path) -> list[Path]:
    """Returns the files in a folder and those below it, sorted; links are followed."""
    names = glob("**", root_dir=place, recursive=True)  # none that are hidden
    return sorted(place / name for name in names if not _LOGS.search(name) and (place / name).is_file())


def documents_of(path: Path, layouts: dict[Path, str], column: str = COLUMN) -> Iterator[Document]:
    """Yields the documents of a file."""
    layout = layouts[path]
    if layout in ("parquet", TABLE):
        yield from _rows(path, layout, column)
        return
    held, size = [], 0
    with opened(path) as file:
        for event in EVENTS[layout](file):
            if not isinstance(event, str):
                held.append(event)
                size += len(event[1])
            if held and (isinstance(event, str) or (size >= MOST_BYTES and layout != JSON)):
                yield Document(layout, held, event if isinstance(event, str) else "")
                held, size = [], 0


def _rows(path: Path, layout: str, column: str) -> Iterator[Document]:
    """Yields the rows of a table, as the lines of JSON that would have the same text."""
    if layout == "parquet":
        header = columns_of(path)
        own = header[column_of(header, column, path, TEXT_OPTION)]
        header = [name for name in header if name in {own, *WIKIPEDIA}]
        rows = enumerate(rows_of(path, header), 1)
        header = [column if name == own else name for name in header]  # not in place: rows_of is lazy
    else:
        rows = table_rows(path, TableFormat(column, header=not column.isdecimal()))
        _, header = next(rows)
        header[column_of(header, column, path, TEXT_OPTION)] = column
    for number, row in rows:
        cells = ",".join(map(str, row))
        if fault := row and (cells_fault(row, header) or invalid_byte(cells)):
            yield Document(JSON, [(number, cells.encode(errors="backslashreplace"))], LOST + fault)
        elif row:
            line = json.dumps(dict(zip(header, row, strict=False)), default=str).encode()
            yield Document(JSON, [(number, line)])


# Each of these gives the lines of documents, and after each document what is wrong with it, or "".


def _events(file: BinaryIO) -> Iterator[Line | str]:
    for line in _lines(file):
        yield line if line[1].strip() else ""
    yield ""


def _book_events(file: BinaryIO) -> Iterator[Line | str]:
    yield from _lines(file)
    yield ""


def _json_events(file: BinaryIO) -> Iterator[Line | str]:
    for number, line in enumerate(bounded_lines(file, MOST_BYTES), 1):
        if content := line.removeprefix(BOM).strip():
            yield number, content
            yield f"{LOST}a line of {MOST_BYTES:,} bytes or more" if len(line) == MOST_BYTES else ""


def _wiki_events(file: BinaryIO) -> Iterator[Line | str]:
    inside = False
    for line in _lines(file):
        if line[1].startswith(b"<doc "):
            if inside:
                yield "no </doc> before the next <doc> (its text is kept)"
            inside = True
            yield line
        elif inside and line[1].strip() == b"</doc>":
            inside = False
            yield ""
        elif inside or line[1].strip():
            yield line
            if not inside:
                yield OUTSIDE
    if inside:
        yield "the file ends without </doc> (the text is kept)"


EVENTS = {PARAGRAPHS: _events, BOOKS: _book_events, WIKIEXTRACTOR: _wiki_events, JSON: _json_events}


def _lines(file: BinaryIO) -> Iterator[Line]:
    """Yields lines; of a long one pieces, which have its number."""
    number, rest = 1, b""
    while piece := rest + file.readline(LONGEST - len(rest)):
        whole = piece.endswith(b"\n")
        cut = len(piece) if whole or len(piece) < LONGEST else _end(piece)
        yield number, piece[:cut].removeprefix(BOM if number == 1 else b"").rstrip(b"\r\n")
        number, rest = number + whole, piece[cut:]


def _end(piece: bytes) -> int:
    """Returns where to cut UTF-8: behind the last blank, else before a character."""
    if blank := piece.rfind(b" ") + 1:
        return blank
    return next((i for i in range(len(piece) - 1, len(piece) - 4, -1) if piece[i] & 0xC0 != 0x80), len(piece))
