"""Corpora of text as blocks of documents: four layouts, each file plain or gzipped.

paragraphs    one paragraph per line, an empty line between documents
wikiextractor <doc ...> ... </doc> as WikiExtractor writes it: one paragraph per line, the title first
json          {"text": "..."}, one document per line, as WikiExtractor --json writes it
books         one document per file; paragraphs are lines, or what is between empty lines if there are any

Reading only finds where documents begin and end; the encoder decodes and cleans (recipes/corpora/text.py). A
block holds whole documents up to some size. Longer documents span several blocks, so that memory does not
depend on a document's length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recipes.command_line import RecipeError
from recipes.corpora.blocks import Block
from recipes.files import opened

PARAGRAPHS, WIKIEXTRACTOR, JSON, BOOKS = "paragraphs", "wikiextractor", "json", "books"
LAYOUTS = (PARAGRAPHS, WIKIEXTRACTOR, JSON, BOOKS)
BLOCK_BYTES = 1 << 19
PIECE_BYTES = 1 << 19  # a longer document is cut at the end of a line
_BOM = b"\xef\xbb\xbf"
_SKIPPED_NAMES = (".", "_")  # hidden files, logs


@dataclass(frozen=True)
class Piece:
    """A document, or a part of one that is long.

    Attributes:
        key: of the document; it determines the split.
        lines: (number from 1, content without the line end).
        first, last: whether this is the document's beginning and end.
        fault: what is wrong with it.
    """

    key: bytes
    lines: list[tuple[int, bytes]]
    first: bool = True
    last: bool = True
    fault: str = ""


@dataclass(frozen=True)
class TextBlock:
    """The payload of a block."""

    layout: str
    pieces: list[Piece]


def files_in(given: list[Path]) -> list[tuple[Path, bool]]:
    """The files of a corpus, each with whether it is from a folder; in the order given, folders sorted.

    Raises:
        RecipeError: for a path that does not exist, an empty folder, or a file that is given twice.
    """
    found: list[tuple[Path, bool]] = []
    for path in given:
        if path.is_dir():
            inner = [p for p in sorted(path.rglob("*")) if p.is_file()]
            inner = [
                p for p in inner if not any(n.startswith(_SKIPPED_NAMES) for n in p.relative_to(path).parts)
            ]
            if not inner:
                raise RecipeError(f"the folder {path} has no files")
            found += [(p, True) for p in inner]
        elif path.is_file():
            found.append((path, False))
        else:
            raise RecipeError(f"{path} does not exist")
    seen = set()
    for path, _ in found:
        if path.resolve() in seen:
            raise RecipeError(f"{path} is given more than once")
        seen.add(path.resolve())
    return found


def layout_of(path: Path, in_folder: bool) -> str:
    """The layout of a file, judged by its beginning; otherwise ``books`` in a folder, else ``paragraphs``.

    Raises:
        RecipeError: if it is empty or not text.
    """
    with opened(path) as (file, _):
        start = file.read(4096)
    if b"\0" in start:
        raise RecipeError(f"{path} is not a text file: it has a zero byte (UTF-16, or compressed twice?)")
    start = start.removeprefix(_BOM).lstrip()
    if not start:
        raise RecipeError(f"{path} is empty, or begins with white space only: leave it out")
    if start.startswith(b"<doc "):
        return WIKIEXTRACTOR
    if start.startswith(b"{"):
        return JSON
    return BOOKS if in_folder else PARAGRAPHS


def blocks_of(path: Path, layout: str) -> Iterator[Block]:
    """The file in blocks; always the same ones.

    Raises:
        RecipeError: if the file turns out to be damaged.
    """
    with opened(path) as (file, raw):
        before, held, size = 0, [], 0
        for piece in _pieces(layout, _lines(file)):
            held.append(piece)
            size += sum(len(content) for _, content in piece.lines)
            if size >= BLOCK_BYTES:
                yield Block(str(path), TextBlock(layout, held), raw.tell() - before)
                before, held, size = raw.tell(), [], 0
        if held:
            yield Block(str(path), TextBlock(layout, held), path.stat().st_size - before)


def _lines(file) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(file, 1):
        yield number, (line.removeprefix(_BOM) if number == 1 else line).rstrip(b"\r\n")


def _pieces(layout: str, lines: Iterator[tuple[int, bytes]]) -> Iterator[Piece]:
    if layout == JSON:
        for number, content in lines:
            if content.strip():
                yield Piece(_key([(number, content)]), [(number, content)])
        return
    collector = _Collector()
    if layout == WIKIEXTRACTOR:
        yield from _wiki_pieces(lines, collector)
        return
    for number, content in lines:
        if layout == PARAGRAPHS and not content.strip():
            yield from collector.end()
        else:
            yield from collector.add(number, content)
    yield from collector.end()


def _wiki_pieces(lines: Iterator[tuple[int, bytes]], collector: _Collector) -> Iterator[Piece]:
    inside = False
    for number, content in lines:
        if content.startswith(b"<doc "):
            if inside:
                yield from collector.end("no </doc> before the next <doc> (its text is kept)")
            inside = True
            yield from collector.add(number, content)
        elif content.strip() == b"</doc>" and inside:
            yield from collector.end()
            inside = False
        elif inside:
            yield from collector.add(number, content)
        elif content.strip():
            key = _key([(number, content)])
            yield Piece(key, [(number, content)], fault="outside <doc> and </doc>")
    if inside:
        yield from collector.end("the file ends without </doc> (the text is kept)")


class _Collector:
    """Lines of a document on their way into pieces."""

    def __init__(self):
        self.lines: list[tuple[int, bytes]] = []
        self.size, self.key = 0, b""

    def add(self, number: int, content: bytes) -> Iterator[Piece]:
        self.lines.append((number, content))
        self.size += len(content)
        if self.size >= PIECE_BYTES:
            yield self._piece(last=False)

    def end(self, fault: str = "") -> Iterator[Piece]:
        if self.lines or self.key:
            yield self._piece(last=True, fault=fault)
        self.key = b""

    def _piece(self, last: bool, fault: str = "") -> Piece:
        first = not self.key
        self.key = self.key or _key(self.lines)
        piece = Piece(self.key, self.lines, first, last, fault)
        self.lines, self.size = [], 0
        return piece


def _key(lines: list[tuple[int, bytes]]) -> bytes:
    """Of the content only: a document gets the same split wherever it is."""
    digest = hashlib.sha256()
    for _, content in lines:
        digest.update(content + b"\n")
    return digest.digest()[:16]
