"""Files of text as documents, in several layouts; where documents begin and end, nothing more.

paragraphs  one paragraph per line, an empty line between documents
books       one document per file; paragraphs are lines, or what is between empty lines if there are any
json        {"text": "..."}, one document per line
parquet     one document per row

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
from lib.data.tables import column_of
from lib.data.text_files import BOM, MOST_BYTES, bounded_lines, opened, suffix_of

PARAGRAPHS, BOOKS, JSON = "paragraphs", "books", "json"
PLAIN = (PARAGRAPHS, BOOKS)  # layouts that nothing tells
SUFFIXES = {".json": JSON, ".jsonl": JSON, PARQUET: "parquet"}
MARKUP = re.compile(rb"<(mediawiki|\?xml|!doctype|html|doc id=)|%PDF-", re.IGNORECASE)
COLUMN = "text"
LONGEST = 100_000  # bytes of a line, and characters of a paragraph
WIKIPEDIA = {"id", "url", "title"}  # columns of WikiExtractor and wikimedia's sets beside the text
_LOGS = re.compile("(^|/)_")  # names such as _SUCCESS, no part of a corpus

Line = tuple[int, bytes]  # number from 1, content without the line end


class Document(NamedTuple):
    """A document as its file has it."""

    layout: str  # PARAGRAPHS, BOOKS, or JSON (any with a column of text)
    lines: list[Line]
    fault: str = ""  # reason for which it cannot be used

    @property
    def size(self) -> int:
        return sum(len(content) for _, content in self.lines)


def layouts_of(given: Iterable[Path], plain: str = PARAGRAPHS) -> dict[Path, str]:
    """Returns the files of a corpus, in the order given and those of folders sorted, with their layouts: by
    their names, or how they begin; that of other text is ``plain``. Raises IsADirectoryError for a folder
    without files, and UserError for a file that is not text in UTF-8, or in another layout."""
    layouts = {}
    for source in given:
        files = (_files_in(source) if source.is_dir() else []) or [source]  # an empty folder is no file
        layouts |= {path: SUFFIXES.get(suffix_of(path)) or _layout_of(path, plain) for path in files}
    for path in (path for path, layout in layouts.items() if layout == JSON):
        with opened(path) as file:
            first = file.readline(1 << 10).removeprefix(BOM).strip()
        if first == b"{" or first.startswith(b"["):
            lines = "a document a line, {...}, such as jq -c '.[]' writes"
            raise UserError(f"{path} begins with {first[:20].decode(errors='replace')!r}: give {lines}")
    return layouts


def _layout_of(path: Path, plain: str) -> str:
    """Returns JSON or ``plain``, by how a file begins. Raises UserError for what would pass for text."""
    if suffix_of(path) in (".csv", ".tsv"):
        way_out = "pandas.read_csv(...).to_json(..., orient='records', lines=True)"
        raise UserError(f"{path} is a table: make JSON lines or Parquet of it, as by {way_out}")
    with opened(path) as file:
        start = file.read(1 << 16).removeprefix(BOM).lstrip()
    if b"\0" in start or MARKUP.match(start):  # archives and UTF-16, too
        raise UserError(f"{path} is not text in UTF-8: extract its text (Wikipedia: see docs/data.md)")
    return JSON if start.startswith(b"{") else plain


def _files_in(folder: Path) -> list[Path]:
    """Returns the files in a folder and those below it, sorted; links are followed."""
    names = glob("**", root_dir=folder, recursive=True)  # none that are hidden
    return sorted(folder / name for name in names if not _LOGS.search(name) and (folder / name).is_file())


def documents_of(path: Path, layouts: dict[Path, str], column: str = COLUMN) -> Iterator[Document]:
    """Yields the documents of a file."""
    layout = layouts[path]
    if layout == "parquet":
        yield from _rows(path, column)
        return
    with opened(path) as file:
        yield from _json_lines(file) if layout == JSON else _plain(file, layout)


def _rows(path: Path, column: str) -> Iterator[Document]:
    """Yields the rows of a Parquet file, as the lines of JSON that would have the same text."""
    header = columns_of(path)
    own = header[column_of(header, column, path, "--text-column")]
    names = [name for name in header if name in {own, *WIKIPEDIA}]
    keys = [column if name == own else name for name in names]
    for number, row in enumerate(rows_of(path, names), 1):
        yield Document(JSON, [(number, json.dumps(dict(zip(keys, row, strict=True)), default=str).encode())])


def _json_lines(file: BinaryIO) -> Iterator[Document]:
    for number, line in enumerate(bounded_lines(file, MOST_BYTES), 1):
        if content := line.removeprefix(BOM).strip():
            fault = f"a line of {MOST_BYTES:,} bytes or more" if len(line) == MOST_BYTES else ""
            yield Document(JSON, [(number, content)], fault)


def _plain(file: BinaryIO, layout: str) -> Iterator[Document]:
    """Yields what is between empty lines, or, of a book, all."""
    held, size = [], 0
    for number, content in _lines(file):
        ends = layout == PARAGRAPHS and not content.strip()
        held += [] if ends else [(number, content)]
        size += len(content)
        if held and (ends or size >= MOST_BYTES):
            yield Document(layout, held)
            held, size = [], 0
    if held:
        yield Document(layout, held)


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
