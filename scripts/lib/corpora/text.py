"""Documents to sentences of token ids: decoded, cleaned, cut into paragraphs, tokenised by the BPE.

A sentence, in fairseq's terms, is a paragraph with ``</s>``; an empty one (``</s>`` alone) follows each
document, which --sample-break-mode complete_doc takes for its end.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from lib.command_line import UserError
from lib.corpora.blocks import Block, EncodedBlock, Rejection, packed
from lib.corpora.bpe import TextEncoder, UnknownTokenError
from lib.corpora.documents import BOOKS, JSON, OUTSIDE, WIKIEXTRACTOR, Piece

_MARKUP = re.compile(r"</?[a-zA-Z][^<>]*>")
_EMPTY_BRACKETS = re.compile(r"\s*\((?:[\s,;:–-]|or|and)*\)")
_INVISIBLE = re.compile("[\u0000-\u0008\u000e-\u001f\u007f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff]")
_SURROGATE = re.compile("[\ud800-\udfff]")  # valid in JSON, but not in text
COUNTED = ("documents", "paragraphs", "paragraphs cut", "empty paragraphs", "empty documents")
Line = tuple[int, str]


def clean(text: str, markup: bool = False) -> str:
    """A paragraph on one line: any white space becomes one space, invisible characters are removed.

    Args:
        markup: also remove left-over tags and brackets that a template left empty, and decode HTML entities,
            as needed for WikiExtractor's output.
    """
    if markup:
        text = _EMPTY_BRACKETS.sub("", _MARKUP.sub("", html.unescape(text)))
    return " ".join(_INVISIBLE.sub("", text).split())


class TextBlockEncoder:
    """Encodes the blocks of lib/corpora/documents.py.

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

    def __call__(self, block: Block) -> EncodedBlock:
        """Raises UserError for a token that the dictionary lacks."""
        texts: list[Line] = []
        places: list[tuple[str, int | None]] = []  # (split, index into texts; None: the end of a document)
        rejections: list[Rejection] = []
        counts = dict.fromkeys(COUNTED, 0)
        for piece in block.payload:
            hashed = int.from_bytes(piece.key[:8], "big") / 2**64
            split = "valid" if block.path in self.valid_files or hashed < self.valid_share else "train"
            if piece.fault:
                number, content = piece.lines[0] if piece.lines else (0, b"")
                shown = content[:200].decode("utf-8", errors="backslashreplace")
                rejections.append(Rejection(str(number), piece.fault, shown))
                if piece.fault == OUTSIDE:
                    continue
            found, empty = paragraphs_of(piece, rejections)
            counts["empty paragraphs"] += empty
            for line in found:
                places.append((split, len(texts)))
                texts.append(line)
            counts["paragraphs"] += len(found)
            if found or not piece.first:
                counts["documents"] += piece.last
                places += [(split, None)] if piece.last else []
            else:
                counts["empty documents"] += piece.last
        ids = self._encode(block.path, texts)
        splits: dict[str, list[np.ndarray]] = {}
        for split, index in places:
            sentences = self._sentences([] if index is None else ids[index])
            counts["paragraphs cut"] += len(sentences) > 1
            splits.setdefault(split, []).extend(sentences)
        return EncodedBlock(
            {split: packed(found) for split, found in splits.items()}, rejections, counts=counts
        )

    def _sentences(self, ids: Sequence[int]) -> list[np.ndarray]:
        limit, size = self.max_tokens or max(len(ids), 1), max(len(ids), 1)
        return [np.append(ids[i : i + limit], self.encoder.eos) for i in range(0, size, limit)]

    def _encode(self, path: Path, texts: list[Line]) -> list[np.ndarray]:
        try:
            return self.encoder.encode([text for _, text in texts])
        except UnknownTokenError as error:
            raise UserError(f"{path}, line {texts[error.index][0]}: {error}") from None


def paragraphs_of(piece: Piece, rejections: list[Rejection]) -> tuple[list[Line], int]:
    """(line number, clean text) of each paragraph, and how many were empty; the unreadable is rejected."""
    if piece.layout == JSON:
        lines = _json_lines(piece, rejections)
    else:
        decoded = (_decoded(number, content, rejections) for number, content in piece.lines)
        lines = [line for line in decoded if line is not None]
    if piece.layout == WIKIEXTRACTOR and piece.first:
        lines = _without_title(lines)
    if piece.layout == BOOKS:
        lines = _joined(lines)
    markup = piece.layout in (JSON, WIKIEXTRACTOR)
    cleaned = [(number, clean(text, markup)) for number, text in lines]
    found = [line for line in cleaned if line[1]]
    blank = sum(not text.strip() for _, text in lines)  # lines between paragraphs are not lost ones
    return found, len(cleaned) - len(found) - blank


def _decoded(number: int, content: bytes, rejections: list[Rejection]) -> Line | None:
    try:
        return number, content.decode("utf-8")
    except UnicodeDecodeError as error:
        shown = content[:200].decode("utf-8", errors="backslashreplace")
        reason = f"invalid UTF-8: {error.reason} at byte {error.start}"
        rejections.append(Rejection(str(number), reason, shown))
        return None


def _json_lines(piece: Piece, rejections: list[Rejection]) -> list[Line]:
    [(number, content)] = piece.lines
    line = _decoded(number, content, rejections)
    if line is None:
        return []
    try:
        document = json.loads(line[1])
        text = document["text"]
        if not isinstance(text, str):
            raise TypeError('"text" is not a string')
    except (ValueError, TypeError, KeyError) as error:
        fault = 'no "text"' if isinstance(error, KeyError) else str(error)
        rejections.append(Rejection(str(number), f"not a document in JSON: {fault}", line[1][:200]))
        return []
    title, lines = document.get("title"), text.split("\n")
    if lines and isinstance(title, str) and lines[0].strip() == title.strip():
        lines = lines[1:]
    found = [(number, one) for one in lines if not _SURROGATE.search(one)]
    for one in lines:
        if half := _SURROGATE.search(one):
            reason = f"half a character: \\u{ord(half[0]):x} without its other half"
            rejections.append(Rejection(str(number), reason, one[:200]))
    return found


def _without_title(lines: list[Line]) -> list[Line]:
    """Without the line of <doc ...>, and without the title that it names."""
    if not lines:
        return lines
    (_, head), *rest = lines
    title = re.search(r'\btitle="(.*)">', head)
    names = {title[1].strip(), html.unescape(title[1]).strip()} if title else set()
    return rest[1:] if rest and rest[0][1].strip() in names else rest


def _joined(lines: list[Line]) -> list[Line]:
    """Paragraphs of a book: the lines between empty ones, if there are any."""
    if all(text.strip() for _, text in lines):
        return lines
    found: list[Line] = []
    before = ""
    for number, text in lines:
        if text.strip() and before.strip():
            found[-1] = (found[-1][0], f"{found[-1][1]} {text.strip()}")
        elif text.strip():
            found.append((number, text.strip()))
        before = text
    return found
