"""Documents of text to sentences of token ids: decoded, cleaned, tokenised.

A sentence, in fairseq's terms, is a paragraph with ``</s>``; an empty one (``</s>`` alone) follows each
document, which --sample-break-mode complete_doc takes for its end.
"""

import hashlib
import html
import json
import re
from collections import Counter
from itertools import groupby
from pathlib import Path

from lib.data.binarise import EncodedBlock, Rejection, blocks_of
from lib.data.bpe import UNKNOWN_ID, TextEncoder
from lib.data.documents import BOOKS, JSON, LONGEST, WIKIPEDIA, Document

HASHED_BYTES = 1 << 19  # bytes of a document's beginning that determine its split
COUNTED = ("documents", "paragraphs", "empty documents", "empty paragraphs", "unknown tokens")
COUNTED += ("markup removed",)
_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>")
_EMPTY_BRACKETS = re.compile(r"\s*\((?:[\s,;:–-]|or|and)*\)")
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000e-\u001b\u007f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff"
    "\ud800-\udfff]"  # halves of characters, which JSON may have
)

Text = tuple[int, str]


def encode_documents(
    path: Path,
    documents: list[Document],
    encoder: TextEncoder,
    max_tokens: int | None,
    column: str,
) -> EncodedBlock:
    """Returns the sentences of documents of a file; paragraphs longer than ``max_tokens`` become several of
    at most so many tokens, without ``</s>``. Raises UserError for a token that the dictionary lacks, unless
    those are allowed."""
    block, counts = EncodedBlock(), Counter(dict.fromkeys(COUNTED, 0))
    for document in documents:
        if document.fault:
            block.rejections.append(_rejection(*document.lines[0], document.fault))
            continue
        paragraphs, content_hash = paragraphs_of(document, block.rejections, counts, column)
        if not paragraphs:
            counts["empty documents"] += 1
            continue
        before = len(block.sentences)
        # all at once would take a hundred times their size in memory
        for group in blocks_of(paragraphs, lambda paragraph: len(paragraph[1]), LONGEST):
            sources = [f"{path}, line {number}" for number, _ in group]
            for ids in encoder.encode([text for _, text in group], sources):
                counts["unknown tokens"] += int((ids == UNKNOWN_ID).sum())
                size = max(len(ids), 1)
                starts = range(0, size, max_tokens or size)
                block.sentences += ([*ids[i : i + starts.step].tolist(), encoder.eos] for i in starts)
        block.sentences.append([encoder.eos])
        block.hashes += [content_hash] * (len(block.sentences) - before)
        counts["documents"] += 1
        counts["paragraphs"] += len(paragraphs)
    block.counts = dict(counts)
    return block


def paragraphs_of(
    document: Document, rejections: list[Rejection], counts: Counter, column: str
) -> tuple[list[Text], float]:
    """Returns (line number, clean text) of each paragraph; and a hash of the document's content in [0, 1),
    by which it gets the same split wherever it is. Unreadable lines are rejected, empty ones counted."""
    texts: list[Text] = []
    for number, content in document.lines:
        try:
            texts.append((number, content.decode("utf-8")))
        except UnicodeDecodeError as error:
            reason = f"invalid UTF-8: {error.reason} at byte {error.start}"
            rejections.append(_rejection(number, content, reason))
    wikipedia = False
    if document.layout == JSON:
        texts, wikipedia = _of_json(texts[0], column, rejections) if texts else ([], False)
    content_hash = _hash(texts)
    if document.layout == BOOKS:
        texts = _joined(texts)
    paragraphs = []
    for number, text in texts:
        if wikipedia:  # removes left-over tags, and brackets that a template left empty
            text, tags = _MARKUP.subn("", html.unescape(text))
            text, brackets = _EMPTY_BRACKETS.subn("", text)
            counts["markup removed"] += tags + brackets
        cleaned = clean(text)
        counts["empty paragraphs"] += not cleaned and bool(text.strip())  # blank lines do not count
        paragraphs += [(number, piece) for piece in _pieces(cleaned)]
    return paragraphs, content_hash


def _hash(texts: list[Text]) -> float:
    digest, size = hashlib.sha256(), 0
    for _, text in texts:
        digest.update(text.encode(errors="surrogatepass") + b"\n")
        size += len(text)
        if size >= HASHED_BYTES:
            break
    return int.from_bytes(digest.digest()[:8], "big") / 2**64


def _pieces(text: str) -> list[str]:
    """Returns a paragraph, or the pieces of a long one, cut at blanks if there are any."""
    pieces = []
    while len(text) > LONGEST:
        cut = text.rfind(" ", 0, LONGEST) + 1 or LONGEST
        pieces.append(text[:cut].rstrip())
        text = text[cut:]
    return [*pieces, text] if text else pieces


def clean(text: str) -> str:
    """Returns a paragraph on one line: any white space becomes one space, invisible characters are
    removed."""
    return " ".join(_INVISIBLE.sub("", text).split())


def _rejection(number: int, content: bytes | str, reason: str) -> Rejection:
    content = content[:200]
    shown = content if isinstance(content, str) else content.decode("utf-8", errors="backslashreplace")
    return Rejection(str(number), reason, shown)


def _of_json(line: Text, column: str, rejections: list[Rejection]) -> tuple[list[Text], bool]:
    """Returns the lines of a document in JSON, of Wikipedia without its title; and whether it is of
    Wikipedia."""
    number, content = line
    try:
        document = json.loads(content)
        lines, wikipedia = document[column].split("\n"), document.keys() >= WIKIPEDIA
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        rejections.append(_rejection(*line, f"not a document in JSON: {type(error).__name__}: {error}"))
        return [], False
    if wikipedia and lines[0].strip() == str(document["title"]).strip():
        lines = lines[1:]
    return [(number, line) for line in lines], wikipedia


def _joined(lines: list[Text]) -> list[Text]:
    """Returns the paragraphs of a book: the lines between empty ones, if there are any."""
    if all(text.strip() for _, text in lines):
        return lines
    groups = [[*group] for full, group in groupby(lines, lambda line: bool(line[1].strip())) if full]
    return [(group[0][0], " ".join(text.strip() for _, text in group)) for group in groups]
