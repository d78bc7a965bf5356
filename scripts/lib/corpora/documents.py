"""Corpora of text as blocks of documents: four layouts, each file plain or gzipped.

paragraphs    one paragraph per line, an empty line between documents
wikiextractor <doc ...> ... </doc> as WikiExtractor writes it: one paragraph per line, the title first
json          {"text": "..."}, one document per line, as WikiExtractor --json writes it
books         one document per file; paragraphs are lines, or what is between empty lines if there are any

Reading only finds where documents begin and end; the encoder decodes and cleans (lib/corpora/text.py). A
block holds whole documents up to some size. Longer documents span several blocks, so that memory does not
depend on a document's length.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lib.command_line import UserError
from lib.corpora.blocks import Block
from lib.preparing import opened

PARAGRAPHS, WIKIEXTRACTOR, JSON, BOOKS = "paragraphs", "wikiextractor", "json", "books"
LAYOUTS = (PARAGRAPHS, WIKIEXTRACTOR, JSON, BOOKS)
BLOCK_BYTES = 1 << 19
PIECE_BYTES = 1 << 19  # a longer document is cut at the end of a line
OUTSIDE = "outside <doc> and </doc>"
Line = tuple[int, bytes]  # number from 1, content without the line end
_BOM = b"\xef\xbb\xbf"
_SKIPPED_NAMES = (".", "_")  # hidden files, logs


class Piece(NamedTuple):
    """A document, or a part of one that is long.

    Attributes:
        layout: one of LAYOUTS.
        key: of the document; it determines the split.
        lines: its lines.
        first, last: whether this is the document's beginning and end.
        fault: what is wrong with it.
    """

    layout: str
    key: bytes
    lines: list[Line]
    first: bool
    last: bool
    fault: str


def files_in(given: list[Path]) -> list[tuple[Path, bool]]:
    """The files of a corpus, each with whether it is from a folder; in the order given, folders sorted.

    Raises:
        UserError: for an empty folder, or a file that is given twice.
    """
    found: list[tuple[Path, bool]] = []
    for path in given:
        if path.is_dir():
            inner = [inside for inside in sorted(path.rglob("*")) if inside.is_file()]
            names = ((inside, inside.relative_to(path).parts) for inside in inner)
            inner = [
                inside for inside, parts in names if not any(n.startswith(_SKIPPED_NAMES) for n in parts)
            ]
            if not inner:
                raise UserError(f"the folder {path} has no files")
            found += [(inside, True) for inside in inner]
        else:
            found.append((path, False))
    check_once(path for path, _ in found)
    return found


def check_once(files: Iterable[Path]) -> None:
    """Raises UserError if a file is given twice, whatever the path."""
    for resolved, number in Counter(path.resolve() for path in files).items():
        if number > 1:
            raise UserError(f"{resolved} is given more than once")


def layout_of(path: Path, in_folder: bool) -> str:
    """The layout of a file, judged by its beginning; otherwise ``books`` in a folder, else ``paragraphs``.

    An empty file of a folder is an empty document, and is counted as such.

    Raises:
        UserError: if it is empty and given by its own name, or not text.
    """
    with opened(path) as (file, _):
        start = file.read(4096)
    if b"\0" in start:
        raise UserError(f"{path} is not a text file: it has a zero byte (UTF-16, or compressed twice?)")
    start = start.removeprefix(_BOM).lstrip()
    if not start and not in_folder:
        raise UserError(f"{path} is empty, or begins with white space only: leave it out")
    if start.startswith(b"<doc "):
        return WIKIEXTRACTOR
    if start.startswith(b"{"):
        return JSON
    return BOOKS if in_folder else PARAGRAPHS


def blocks_of(path: Path, layout: str) -> Iterator[Block]:
    """The file in blocks of Pieces; always the same ones.

    Raises:
        UserError: if the file turns out to be damaged.
    """
    with opened(path) as (file, raw):
        before, held, size = 0, [], 0
        for piece in _pieces(layout, _lines(file)):
            held.append(piece)
            size += sum(len(content) for _, content in piece.lines)
            if size >= BLOCK_BYTES:
                yield Block(path, held, raw.tell() - before)
                before, held, size = raw.tell(), [], 0
        if held:
            yield Block(path, held, path.stat().st_size - before)


def _lines(file) -> Iterator[Line]:
    number = 0
    for number, line in enumerate(file, 1):
        yield number, (line.removeprefix(_BOM) if number == 1 else line).rstrip(b"\r\n")
    if number == 0:
        yield 1, b""


def _events(layout: str, lines: Iterator[Line]) -> Iterator[Line | str]:
    """The lines of documents, and after each document what is wrong with it, or ""."""
    if layout != WIKIEXTRACTOR:
        for line in lines:
            blank = not line[1].strip()
            if layout == BOOKS or not blank:
                yield line
            if layout == JSON or (layout == PARAGRAPHS and blank):
                yield ""
        yield ""
        return
    inside = False
    for line in lines:
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


def _pieces(layout: str, lines: Iterator[Line]) -> Iterator[Piece]:
    limit = math.inf if layout == JSON else PIECE_BYTES
    held, size, key = [], 0, b""
    for event in _events(layout, lines):
        last = isinstance(event, str)
        if not last:
            held.append(event)
            size += len(event[1])
        if (held or key) and (last or size >= limit):
            first, key = not key, key or _key(held)
            yield Piece(layout, key, held, first, last, event if last else "")
            held, size = [], 0
        if last:
            key = b""


def _key(lines: list[Line]) -> bytes:
    """Of the content only: a document gets the same split wherever it is."""
    digest = hashlib.sha256()
    for _, content in lines:
        digest.update(content + b"\n")
    return digest.digest()[:16]
