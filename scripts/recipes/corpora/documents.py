"""Corpora of text as blocks of documents: four layouts, each file plain or gzipped.

paragraphs    a paragraph a line, an empty line between documents
wikiextractor <doc ...> ... </doc> as WikiExtractor writes it: a paragraph a line, the title first
json          {"text": "..."}, a document a line, as WikiExtractor --json writes it, a paragraph a line of it
books         a document a file; paragraphs are lines, or where there are empty lines, what is between those

Reading only finds out where documents begin and end; decoding and cleaning is the encoder's work
(preparation/text.py). A block holds whole documents up to some size. A longer document goes into several
blocks, so that memory depends on no document's length.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from recipes.corpora.blocks import Block, PreparationError
from recipes.corpora.readers import opened

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
        key: of the document, by which it is put into a split.
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
    """The files of a corpus, each with whether it came with a folder; in the order given, folders sorted.

    Raises:
        PreparationError: for what is not there, an empty folder, or a file that is given twice.
    """
    found: list[tuple[Path, bool]] = []
    for path in given:
        if path.is_dir():
            inner = [p for p in sorted(path.rglob("*")) if p.is_file()]
            inner = [
                p for p in inner if not any(n.startswith(_SKIPPED_NAMES) for n in p.relative_to(path).parts)
            ]
            if not inner:
                raise PreparationError(f"the folder {path} holds no file")
            found += [(p, True) for p in inner]
        elif path.is_file():
            found.append((path, False))
        else:
            raise PreparationError(f"{path}: there is no such file or folder")
    seen = set()
    for path, _ in found:
        if path.resolve() in seen:
            raise PreparationError(f"{path} is given more than once")
        seen.add(path.resolve())
    return found


def layout_of(path: Path, in_folder: bool) -> str:
    """Which layout a file has: as it begins, else ``books`` in a folder and ``paragraphs`` alone.

    Raises:
        PreparationError: if it is empty or no text.
    """
    with opened(path) as (file, _):
        start = file.read(4096)
    if b"\0" in start:
        raise PreparationError(
            f"{path} is no text file: there is a zero byte in it (UTF-16, or packed twice?)"
        )
    start = start.removeprefix(_BOM).lstrip()
    if not start:
        raise PreparationError(f"{path} is empty, or begins with nothing but white space: leave it out")
    if start.startswith(b"<doc "):
        return WIKIEXTRACTOR
    if start.startswith(b"{"):
        return JSON
    return BOOKS if in_folder else PARAGRAPHS


def blocks_of(path: Path, layout: str) -> Iterator[Block]:
    """The file in blocks; always the same ones.

    Raises:
        PreparationError: if the file turns out to be broken.
    """
    with opened(path) as (file, raw):
        before, held, size = 0, [], 0
        for piece in _pieces(layout, _lines(file)):
            held.append(piece)
            size += sum(len(content) for _, content in piece.lines)
            if size >= BLOCK_BYTES:
                yield _block(path, layout, held, raw.tell() - before)
                before, held, size = raw.tell(), [], 0
        if held:
            yield _block(path, layout, held, path.stat().st_size - before)


def _block(path: Path, layout: str, pieces: list[Piece], weight: int) -> Block:
    digest = hashlib.sha256(layout.encode())
    for piece in pieces:
        digest.update(piece.key + bytes([piece.first, piece.last]) + piece.fault.encode() + b"\0")
        for number, content in piece.lines:
            digest.update(b"%d %d " % (number, len(content)) + content)
    return Block(str(path), TextBlock(layout, pieces), digest.digest(), weight)


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
            yield Piece(key, [(number, content)], fault="outside of <doc> and </doc>")
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
    """Of the content alone: a document is put into the same split wherever it stands."""
    digest = hashlib.sha256()
    for _, content in lines:
        digest.update(content + b"\n")
    return digest.digest()[:16]
