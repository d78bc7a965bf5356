"""Files of text as documents of clean paragraphs, in several layouts:

paragraphs  one paragraph per line, an empty line between documents
books       one document per file; paragraphs are lines, or what is between empty lines if there are any
json        {"text": "..."}, one document per line; a line of the text is a paragraph
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from pathlib import Path

from lib.command_line import UserError
from lib.data.text_files import lines_of, opened, suffix_of
from lib.files import files_below

PARAGRAPHS, BOOKS, JSON = "paragraphs", "books", "json"
PLAIN = (PARAGRAPHS, BOOKS)  # layouts that nothing tells
COLUMN = "text"
_BLANKS = " \t\r\v\f"
_INVISIBLE = re.compile(
    "[\u0000-\u0008\u000e-\u001b\u007f\u00ad\u200b\u200e\u200f\u202a-\u202e\u2060\ufeff"
    "\ud800-\udfff]"  # halves of characters, which JSON may have
)

Line = tuple[int, str]  # number from 1, text; bytes that are not UTF-8 as by "surrogateescape"


def layouts_of(given: Iterable[Path], plain: str = PARAGRAPHS) -> dict[Path, str]:
    """Returns the files of a corpus, in the order given and those of folders sorted, with their layouts:
    JSON if they are named so or begin with ``{``, else ``plain``. Raises IsADirectoryError for a folder
    without files, and UserError for a file that is not text."""
    layouts = {}
    for source in given:
        below = files_below(source) if source.is_dir() else []
        for path in below or [source]:  # an empty folder is no file
            with opened(path) as file:
                start = file.read(1 << 16).removeprefix(b"\xef\xbb\xbf").lstrip()
            if b"\0" in start or suffix_of(path) in (".csv", ".tsv"):  # archives, Parquet and UTF-16, too
                raise UserError(f"{path} is not text in UTF-8: give plain text, or JSON lines")
            named = suffix_of(path) in (".json", ".jsonl")
            layouts[path] = JSON if named or start.startswith(b"{") else plain
    return layouts


def documents_of(path: Path, layouts: dict[Path, str]) -> Iterator[list[Line]]:
    """Yields the documents of a file, as lines; of JSON, a document is one."""
    lines = lines_of(path, "surrogateescape")
    if layouts[path] == BOOKS:
        yield [*lines]
    elif layouts[path] == JSON:
        yield from ([line] for line in lines if line[1].strip())
    else:
        groups = groupby(lines, lambda line: bool(line[1].strip(_BLANKS)))
        yield from ([*group] for full, group in groups if full)


def paragraphs_of(document: list[Line], layout: str, column: str) -> tuple[list[Line], list[Line], float]:
    """Returns the clean paragraphs of a document; (number, reason) of the lines that cannot be read; and a
    hash of the content in [0, 1), by which it is for training or for validation wherever it is."""
    lines, faults = [], []
    for number, text in document:
        if invalid := re.search("[\udc80-\udcff]", text):
            byte = ord(invalid[0]) - 0xDC00
            faults.append((number, f"invalid UTF-8: byte {byte:#04x}"))
        elif layout == JSON:
            try:
                texts = json.loads(text)[column].split("\n")
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
                faults.append((number, f"not a document in JSON: {type(error).__name__}: {error}"))
                continue
            lines = [(number, text) for text in texts]
        else:
            lines.append((number, text))
    digest = hashlib.sha256("".join(f"{text}\n" for _, text in lines).encode(errors="surrogatepass"))
    if layout == BOOKS and not all(text.strip() for _, text in lines):  # lines are wrapped
        groups = [[*group] for full, group in groupby(lines, lambda line: bool(line[1].strip())) if full]
        lines = [(group[0][0], " ".join(text.strip() for _, text in group)) for group in groups]
    paragraphs = [(number, cleaned) for number, text in lines if (cleaned := clean(text))]
    return paragraphs, faults, int.from_bytes(digest.digest()[:8], "big") / 2**64


def clean(text: str) -> str:
    """Returns a paragraph on one line: any white space becomes one space, invisible characters are
    removed."""
    return " ".join(_INVISIBLE.sub("", text).split())
