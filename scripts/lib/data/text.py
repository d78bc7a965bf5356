"""Corpora of text: files of documents, in several layouts, to sentences of token ids.

paragraphs    one paragraph per line, an empty line between documents
books         one document per file; paragraphs are lines, or what is between empty lines if there are any
wikiextractor <doc ...> ... </doc> as WikiExtractor writes it: one paragraph per line, the title first
json          {"text": "..."}, one document per line
table         CSV or TSV, one document per row
parquet       one document per row

A sentence, in fairseq's terms, is a paragraph with ``</s>``; an empty one (``</s>`` alone) follows each
document, which --sample-break-mode complete_doc takes for its end.

Reading (``documents_of``) only finds where documents begin and end; ``TextBlockEncoder`` decodes, cleans and
tokenises. So that memory is bounded, a document of more than 16 MB becomes several, and a line of more than
100 kB several paragraphs, cut at a blank.
"""

from __future__ import annotations

import csv
import hashlib
import html
import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count, islice
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lib.command_line import UserError
from lib.data.binarise import EncodedBlock, Rejection
from lib.data.bpe import UNKNOWN, UNKNOWN_ID, TextEncoder
from lib.data.kinds import (
    BOM,
    BOOKS,
    EMPTY,
    JSON,
    PARAGRAPHS,
    PARQUET,
    TABLE,
    WIKIEXTRACTOR,
    opened,
    text_layout,
)
from lib.data.parquet import columns_of, rows_of
from lib.data.tables import TableFormat, column_of, table_rows

AUTO = "auto"
LAYOUTS = (PARAGRAPHS, BOOKS)  # of plain text
COLUMN = "text"
MOST_BYTES = 1 << 24  # of a document; a longer one is cut at the end of a line
SAMPLED = 10  # files, documents of each, and paragraphs of each of these
LONGEST = 100_000  # bytes of a line, and characters of a paragraph
HASHED_BYTES = 1 << 19  # of a document's beginning, which determine its split
WIKIPEDIA = {"id", "url", "title"}  # what WikiExtractor and wikimedia's sets have beside the text
LOST = "lost: "  # how the fault of a document begins of which nothing is kept
OUTSIDE = f"{LOST}outside <doc> and </doc>"
COUNTED = ("documents", "paragraphs", "paragraphs cut", "empty paragraphs", "empty documents")
COUNTED += ("markup removed",)
_SKIPPED = (".", "_")  # how the names of hidden files and logs begin
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>")
_EMPTY_BRACKETS = re.compile(r"\s*\((?:[\s,;:–-]|or|and)*\)")
_INVISIBLE = re.compile("[\u0000-\u0008\u000e-\u001b\u007f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")  # valid in JSON, but not in text

Line = tuple[int, bytes]  # number from 1, content without the line end
Text = tuple[int, str]


class Document(NamedTuple):
    """A document.

    Attributes:
        layout: PARAGRAPHS, BOOKS, WIKIEXTRACTOR, or JSON (any with a column of text).
        lines: its lines.
        fault: what is wrong with it.
    """

    layout: str
    lines: list[Line]
    fault: str = ""

    @property
    def size(self) -> int:
        return sum(len(content) for _, content in self.lines)


def layouts_of(given: Iterable[Path], layout: str = AUTO, column: str = COLUMN) -> dict[Path, str]:
    """The files of a corpus, in the order given and those of folders sorted, and the layout of each.

    Args:
        layout: of plain text.
        column: see ``text_layout``.

    Raises:
        UserError: for a folder without files, or a file whose text cannot be read.
    """
    layouts = {}
    for place in given:
        files = _files_in(place) if place.is_dir() else [place]
        if not files:
            raise UserError(f"the folder {place} has no files")
        for path in files:
            detected = text_layout(path, column)
            layouts[path] = layout if detected in LAYOUTS and layout != AUTO else detected
    return layouts


def _files_in(place: Path) -> list[Path]:
    """The files in a folder and those below it, sorted; links are followed, each folder is read once."""
    files, seen = [], set()
    for folder, inner, names in os.walk(place, followlinks=True):
        if (real := os.path.realpath(folder)) in seen:
            inner.clear()
            continue
        seen.add(real)
        inner[:] = sorted(name for name in inner if not name.startswith(_SKIPPED))
        files += [Path(folder, name) for name in names if not name.startswith(_SKIPPED)]
    return sorted(files)


def documents_of(path: Path, layouts: dict[Path, str], column: str = COLUMN) -> Iterator[Document]:
    """The documents of a file.

    Raises:
        UserError: if the file turns out to be damaged.
    """
    layout = layouts[path]
    if layout in (PARQUET, TABLE):
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
    """The rows of a table, as the lines of JSON that would have the same text."""
    csv.field_size_limit(MOST_BYTES)
    if layout == PARQUET:
        header = columns_of(path)
        column_of(header, column, path, "--text-column")
        header = [name for name in header if name in {column, *WIKIPEDIA}]
        rows = enumerate(rows_of(path, header), 1)
    else:
        rows = table_rows(path, TableFormat(column))
        _, header = next(rows)
        column_of(header, column, path, "--text-column")
    for number, row in rows:
        if len(row) == len(header):
            line = json.dumps(dict(zip(header, row, strict=True)), default=str).encode()
            yield Document(JSON, [(number, line)])
        elif row:
            fault = f"{LOST}wrong number of cells: {len(row)}, but the header has {len(header)}"
            yield Document(JSON, [(number, ",".join(row).encode(errors="backslashreplace"))], fault)


# Each of these gives the lines of documents, and after each document what is wrong with it, or "".


def _events(file: BinaryIO) -> Iterator[Line | str]:
    for line in _lines(file):
        yield line if line[1].strip() else ""
    yield ""


def _book_events(file: BinaryIO) -> Iterator[Line | str]:
    yield from _lines(file)
    yield ""


def _json_events(file: BinaryIO) -> Iterator[Line | str]:
    for number in count(1):
        line = piece = file.readline(MOST_BYTES)
        while piece and not piece.endswith(b"\n"):
            piece = file.readline(MOST_BYTES)
        if not line:
            return
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


EVENTS = {PARAGRAPHS: _events, BOOKS: _book_events, EMPTY: _book_events}
EVENTS |= {WIKIEXTRACTOR: _wiki_events, JSON: _json_events}


def _lines(file: BinaryIO) -> Iterator[Line]:
    """Lines; of a long one pieces, which have its number. An empty file has an empty line."""
    number, rest = 1, b""
    while piece := rest + file.readline(LONGEST - len(rest)):
        whole = piece.endswith(b"\n")
        cut = len(piece) if whole or len(piece) < LONGEST else _end(piece)
        yield number, piece[:cut].removeprefix(BOM if number == 1 else b"").rstrip(b"\r\n")
        number, rest = number + whole, piece[cut:]
    if number == 1:
        yield 1, b""


def _end(piece: bytes) -> int:
    """Where to cut UTF-8: behind the last blank, else before a character."""
    if blank := piece.rfind(b" ") + 1:
        return blank
    return next((i for i in range(len(piece) - 1, len(piece) - 4, -1) if piece[i] & 0xC0 != 0x80), len(piece))


class TextBlockEncoder:
    """Makes sentences of documents.

    Args:
        encoder: BPE and dictionary.
        layouts: of the files.
        max_tokens: longer paragraphs become several sentences of at most this many tokens, without ``</s>``.
        column: of the text, in JSON and tables.
    """

    def __init__(
        self, encoder: TextEncoder, layouts: dict[Path, str], max_tokens: int | None, column: str = COLUMN
    ):
        self.encoder, self.layouts = encoder, layouts
        self.max_tokens, self.column = max_tokens, column

    def __call__(self, path: Path, documents: list[Document]) -> EncodedBlock:
        """Raises UserError for a token that the dictionary lacks, unless those are allowed."""
        block = EncodedBlock()
        counts = Counter(dict.fromkeys((*COUNTED, f"{self.layouts[path]} documents"), 0))
        for document in documents:
            if document.fault:
                reason = document.fault.removeprefix(LOST)
                block.rejections.append(_rejection(*document.lines[0], reason))
                if reason != document.fault:
                    continue
            paragraphs, place = paragraphs_of(document, block.rejections, counts, self.column)
            if not paragraphs:
                counts["empty documents"] += 1
                continue
            before = len(block.sentences)
            for group in _groups(paragraphs):
                places = [f"{path}, line {number}" for number, _ in group]
                texts = [text for _, text in group]
                for text, ids in zip(texts, self.encoder.encode(texts, places), strict=True):
                    if (ids == UNKNOWN_ID).any():
                        counts.update(f"{UNKNOWN} {piece}" for piece in self.encoder.unknown_in(text))
                    cut = self._cut(ids.tolist())
                    counts["paragraphs cut"] += len(cut) > 1
                    block.sentences += cut
            block.sentences.append([self.encoder.eos])
            block.places += [place] * (len(block.sentences) - before)
            counts["documents"] += 1
            counts[f"{self.layouts[path]} documents"] += 1
            counts["paragraphs"] += len(paragraphs)
        block.counts = dict(counts)
        return block

    def _cut(self, ids: list[int]) -> list[list[int]]:
        limit, size = self.max_tokens or max(len(ids), 1), max(len(ids), 1)
        return [[*ids[i : i + limit], self.encoder.eos] for i in range(0, size, limit)]


def _groups(paragraphs: list[Text]) -> Iterator[list[Text]]:
    """Paragraphs to tokenise at once, which takes a hundred times their size in memory."""
    group, size = [], 0
    for paragraph in paragraphs:
        group.append(paragraph)
        size += len(paragraph[1])
        if size >= LONGEST:
            yield group
            group, size = [], 0
    if group:
        yield group


def paragraphs_of(
    document: Document, rejections: list[Rejection], counts: Counter, column: str = COLUMN
) -> tuple[list[Text], float]:
    """(line number, clean text) of each paragraph; and the document's place in [0, 1), by its content alone:
    it gets the same split wherever it is. Unreadable lines are rejected, empty ones counted."""
    texts: list[Text] = []
    for number, content in document.lines:
        try:
            texts.append((number, content.decode("utf-8")))
        except UnicodeDecodeError as error:
            reason = f"invalid UTF-8: {error.reason} at byte {error.start}"
            rejections.append(_rejection(number, content, reason))
    wikipedia = document.layout == WIKIEXTRACTOR
    counts["paragraphs cut"] += len(texts) - len({number for number, _ in texts})
    if document.layout == JSON:
        texts, wikipedia = _of_json(texts[0], column, rejections) if texts else ([], False)
    place = _place(texts)
    if document.layout == WIKIEXTRACTOR:
        texts = _without_title(texts)
    elif document.layout == BOOKS:
        texts = _joined(texts)
    paragraphs = []
    for number, text in texts:
        if wikipedia:
            text, removed = without_markup(text)
            counts["markup removed"] += removed
        cleaned = clean(text)
        counts["empty paragraphs"] += not cleaned and bool(text.strip())  # not the lines between them
        pieces = _pieces(cleaned)
        counts["paragraphs cut"] += len(pieces) > 1
        paragraphs += [(number, piece) for piece in pieces]
    return paragraphs, place


def _place(texts: list[Text]) -> float:
    digest, size = hashlib.sha256(), 0
    for _, text in texts:
        digest.update(text.encode() + b"\n")
        size += len(text)
        if size >= HASHED_BYTES:
            break
    return int.from_bytes(digest.digest()[:8], "big") / 2**64


def _pieces(text: str) -> list[str]:
    """A paragraph, or the pieces of a long one, cut at blanks if there are any."""
    pieces = []
    while len(text) > LONGEST:
        cut = text.rfind(" ", 0, LONGEST) + 1 or LONGEST
        pieces.append(text[:cut].rstrip())
        text = text[cut:]
    return [*pieces, text] if text else pieces


def sample_of(layouts: dict[Path, str], column: str) -> list[str]:
    """The first paragraphs of the first files, to try a tokenizer on."""
    sample = []
    for path in list(layouts)[:SAMPLED]:
        for document in islice(documents_of(path, layouts, column), SAMPLED):
            paragraphs, _ = paragraphs_of(document, [], Counter(), column)
            sample += [text for _, text in paragraphs[:SAMPLED]]
    return sample


def clean(text: str) -> str:
    """A paragraph on one line: any white space becomes one space, invisible characters are removed."""
    return " ".join(_INVISIBLE.sub("", text).split())


def without_markup(text: str) -> tuple[str, int]:
    """What is left of Wikipedia's text without left-over tags, and brackets that a template left empty, HTML
    entities decoded; and how many tags and brackets that were."""
    text, tags = _MARKUP.subn("", html.unescape(text))
    text, brackets = _EMPTY_BRACKETS.subn("", text)
    return text, tags + brackets


def _rejection(number: int, content: bytes | str, reason: str) -> Rejection:
    content = content[:200]
    shown = content if isinstance(content, str) else content.decode("utf-8", errors="backslashreplace")
    return Rejection(str(number), reason, shown)


def _of_json(line: Text, column: str, rejections: list[Rejection]) -> tuple[list[Text], bool]:
    """The lines of a document in JSON, of Wikipedia without its title; and whether it is of Wikipedia."""
    number, content = line
    try:
        document = json.loads(content)
        text = document[column]
        if not isinstance(text, str):
            raise TypeError(f'"{column}" is not a string')
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        fault = f'no "{column}"' if isinstance(error, KeyError) else str(error)
        rejections.append(_rejection(*line, f"not a document in JSON: {fault}"))
        return [], False
    lines, wikipedia = text.split("\n"), document.keys() >= WIKIPEDIA
    if wikipedia and lines[0].strip() == str(document["title"]).strip():
        lines = lines[1:]
    kept = []
    for line in lines:
        if half := _SURROGATE.search(line):
            reason = f"half a character: \\u{ord(half[0]):x} without its other half"
            rejections.append(_rejection(number, line, reason))
        else:
            kept.append((number, line))
    return kept, wikipedia


def _without_title(lines: list[Text]) -> list[Text]:
    """Without the line of <doc ...>, and without the title that it names."""
    if not lines or not lines[0][1].startswith("<doc "):  # the rest of a long document
        return lines
    (_, head), *rest = lines
    title = re.search(r'\btitle="(.*)">', head)
    names = {title[1].strip(), html.unescape(title[1]).strip()} if title else set()
    return rest[1:] if rest and rest[0][1].strip() in names else rest


def _joined(lines: list[Text]) -> list[Text]:
    """Paragraphs of a book: the lines between empty ones, if there are any."""
    if all(text.strip() for _, text in lines):
        return lines
    joined: list[tuple[int, list[str]]] = []
    before = ""
    for number, text in lines:
        if text.strip() and before:
            joined[-1][1].append(text.strip())
        elif text.strip():
            joined.append((number, [text.strip()]))
        before = text.strip()
    return [(number, " ".join(texts)) for number, texts in joined]
