"""Corpora of text: files of documents, in four layouts, to sentences of token ids.

paragraphs    one paragraph per line, an empty line between documents
wikiextractor <doc ...> ... </doc> as WikiExtractor writes it: one paragraph per line, the title first
json          {"text": "..."}, one document per line, as WikiExtractor --json writes it
books         one document per file; paragraphs are lines, or what is between empty lines if there are any

A sentence, in fairseq's terms, is a paragraph with ``</s>``; an empty one (``</s>`` alone) follows each
document, which --sample-break-mode complete_doc takes for its end.

Reading (``documents_of``) only finds where documents begin and end; ``TextBlockEncoder`` decodes, cleans and
tokenises. A document of more than 16 MB becomes several, so that memory is bounded.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

from lib.command_line import UserError
from lib.corpora.binarise import EncodedBlock, Rejection
from lib.corpora.bpe import TextEncoder
from lib.preparing import opened

PARAGRAPHS, WIKIEXTRACTOR, JSON, BOOKS = "paragraphs", "wikiextractor", "json", "books"
AUTO = "auto"
LAYOUTS = (PARAGRAPHS, WIKIEXTRACTOR, JSON, BOOKS)
MOST_BYTES = 1 << 24  # of a document; a longer one is cut at the end of a line
HASHED_BYTES = 1 << 19  # of its beginning, which determine its split
OUTSIDE = "outside <doc> and </doc>"
COUNTED = ("documents", "paragraphs", "paragraphs cut", "empty paragraphs", "empty documents")
_BOM = b"\xef\xbb\xbf"
_SKIPPED = re.compile(r"(^|/)[._]")  # hidden files, logs
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>")
_EMPTY_BRACKETS = re.compile(r"\s*\((?:[\s,;:–-]|or|and)*\)")
_INVISIBLE = re.compile("[\u0000-\u0008\u000e-\u001f\u007f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")  # valid in JSON, but not in text

Line = tuple[int, bytes]  # number from 1, content without the line end
Text = tuple[int, str]


class Document(NamedTuple):
    """A document.

    Attributes:
        layout: one of LAYOUTS.
        lines: its lines.
        fault: what is wrong with it.
    """

    layout: str
    lines: list[Line]
    fault: str

    @property
    def size(self) -> int:
        return sum(len(content) for _, content in self.lines)

    @property
    def place(self) -> float:
        """By its content only, in [0, 1): a document gets the same split wherever it is."""
        digest, size = hashlib.sha256(), 0
        for _, content in self.lines:
            digest.update(content + b"\n")
            size += len(content)
            if size >= HASHED_BYTES:
                break
        return int.from_bytes(digest.digest()[:8], "big") / 2**64


def layouts_of(given: Iterable[Path], layout: str = AUTO) -> dict[Path, str]:
    """The files of a corpus, in the order given and those of folders sorted, and the layout of each.

    Raises:
        UserError: for a folder without files, or a file that is empty or not text.
    """
    layouts = {}
    for place in given:
        files = sorted(filter(Path.is_file, place.rglob("*"))) if place.is_dir() else [place]
        if place.is_dir():
            files = [path for path in files if not _SKIPPED.search(str(path.relative_to(place)))]
        if not files:
            raise UserError(f"the folder {place} has no files")
        for path in files:
            layouts[path] = _detected(path, place.is_dir()) if layout == AUTO else layout
    return layouts


def _detected(path: Path, in_folder: bool) -> str:
    """The layout of a file, judged by its beginning; otherwise ``books`` in a folder, else ``paragraphs``.

    An empty file of a folder is an empty document, and is counted as such.
    """
    with opened(path) as file:
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


def documents_of(path: Path, layouts: dict[Path, str]) -> Iterator[Document]:
    """The documents of a file.

    Raises:
        UserError: if the file turns out to be damaged.
    """
    layout, held, size = layouts[path], [], 0
    with opened(path) as file:
        for event in _wiki_events(_lines(file)) if layout == WIKIEXTRACTOR else _events(layout, _lines(file)):
            if not isinstance(event, str):
                held.append(event)
                size += len(event[1])
            if held and (isinstance(event, str) or (size >= MOST_BYTES and layout != JSON)):
                yield Document(layout, held, event if isinstance(event, str) else "")
                held, size = [], 0


def _lines(file: BinaryIO) -> Iterator[Line]:
    number = 0
    for number, line in enumerate(file, 1):
        yield number, (line.removeprefix(_BOM) if number == 1 else line).rstrip(b"\r\n")
    if number == 0:
        yield 1, b""


def _events(layout: str, lines: Iterable[Line]) -> Iterator[Line | str]:
    """The lines of documents, and after each document what is wrong with it, or ""."""
    for line in lines:
        blank = not line[1].strip()
        if layout == BOOKS or not blank:
            yield line
        if layout == JSON or (layout == PARAGRAPHS and blank):
            yield ""
    yield ""


def _wiki_events(lines: Iterable[Line]) -> Iterator[Line | str]:
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


class TextBlockEncoder:
    """Makes sentences of documents.

    Args:
        encoder: BPE and dictionary.
        valid_files: files whose documents are for validation.
        valid_share: the share of the other files' documents that is too, chosen by hash.
        max_tokens: longer paragraphs become several sentences of at most this many tokens, without ``</s>``.
    """

    def __init__(
        self, encoder: TextEncoder, valid_files: frozenset[Path], valid_share: float, max_tokens: int | None
    ):
        self.encoder, self.valid_files = encoder, valid_files
        self.valid_share, self.max_tokens = valid_share, max_tokens

    def __call__(self, path: Path, documents: list[Document]) -> EncodedBlock:
        """Raises UserError for a token that the dictionary lacks."""
        splits: dict[str, list[list[int]]] = {"train": [], "valid": []}
        rejections: list[Rejection] = []
        counts = Counter(dict.fromkeys(COUNTED, 0))
        for document in documents:
            if document.fault:
                rejections.append(_rejection(*document.lines[0], document.fault))
                if document.fault == OUTSIDE:
                    continue
            found, empty = paragraphs_of(document, rejections)
            counts["empty paragraphs"] += empty
            if not found:
                counts["empty documents"] += 1
                continue
            valid = path in self.valid_files or document.place < self.valid_share
            sentences = splits["valid" if valid else "train"]
            places = [f"{path}, line {number}" for number, _ in found]
            for ids in self.encoder.encode([text for _, text in found], places):
                cut = self._cut(ids.tolist())
                counts["paragraphs cut"] += len(cut) > 1
                sentences += cut
            counts["documents"] += 1
            counts["paragraphs"] += len(found)
            sentences.append([self.encoder.eos])
        return EncodedBlock(splits, rejections, counts=dict(counts))

    def _cut(self, ids: list[int]) -> list[list[int]]:
        limit, size = self.max_tokens or max(len(ids), 1), max(len(ids), 1)
        return [[*ids[i : i + limit], self.encoder.eos] for i in range(0, size, limit)]


def paragraphs_of(document: Document, rejections: list[Rejection]) -> tuple[list[Text], int]:
    """(line number, clean text) of each paragraph, and how many were empty; the unreadable is rejected."""
    texts: list[Text] = []
    for number, content in document.lines:
        try:
            texts.append((number, content.decode("utf-8")))
        except UnicodeDecodeError as error:
            reason = f"invalid UTF-8: {error.reason} at byte {error.start}"
            rejections.append(_rejection(number, content, reason))
    if document.layout == JSON:
        texts = [text for line in texts for text in _of_json(*line, rejections)]
    elif document.layout == WIKIEXTRACTOR:
        texts = _without_title(texts)
    elif document.layout == BOOKS:
        texts = _joined(texts)
    markup = document.layout in (JSON, WIKIEXTRACTOR)
    cleaned = [(number, clean(text, markup)) for number, text in texts]
    found = [line for line in cleaned if line[1]]
    blank = sum(not text.strip() for _, text in texts)  # lines between paragraphs are not lost ones
    return found, len(cleaned) - len(found) - blank


def clean(text: str, markup: bool = False) -> str:
    """A paragraph on one line: any white space becomes one space, invisible characters are removed.

    Args:
        markup: also remove left-over tags and brackets that a template left empty, and decode HTML entities,
            as needed for WikiExtractor's output.
    """
    if markup:
        text = _EMPTY_BRACKETS.sub("", _MARKUP.sub("", html.unescape(text)))
    return " ".join(_INVISIBLE.sub("", text).split())


def _rejection(number: int, content: bytes | str, reason: str) -> Rejection:
    content = content[:200]
    shown = content if isinstance(content, str) else content.decode("utf-8", errors="backslashreplace")
    return Rejection(str(number), reason, shown)


def _of_json(number: int, line: str, rejections: list[Rejection]) -> list[Text]:
    """The lines of a document in JSON, without its title."""
    try:
        document = json.loads(line)
        text = document["text"]
        if not isinstance(text, str):
            raise TypeError('"text" is not a string')
    except (ValueError, TypeError, KeyError) as error:
        fault = 'no "text"' if isinstance(error, KeyError) else str(error)
        rejections.append(_rejection(number, line, f"not a document in JSON: {fault}"))
        return []
    title, lines = document.get("title"), text.split("\n")
    if isinstance(title, str) and lines[0].strip() == title.strip():
        lines = lines[1:]
    for one in lines:
        if half := _SURROGATE.search(one):
            reason = f"half a character: \\u{ord(half[0]):x} without its other half"
            rejections.append(_rejection(number, one, reason))
    return [(number, one) for one in lines if not _SURROGATE.search(one)]


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
    found: list[Text] = []
    before = ""
    for number, text in lines:
        if text.strip() and before.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {text.strip()}")
        elif text.strip():
            found.append((number, text.strip()))
        before = text
    return found
