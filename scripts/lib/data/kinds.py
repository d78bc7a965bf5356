"""What a file is, told by its first bytes and its name, and its content, unpacked: for all preparations.

What no preparation reads is refused by name, with the command that converts it.
"""

import bz2
import gzip
import json
import lzma
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lib.command_line import UserError

PARAGRAPHS, BOOKS, EMPTY = "paragraphs", "books", "empty"
WIKIEXTRACTOR, JSON, TABLE, PARQUET = "wikiextractor", "json", "table", "parquet"
PACKED = {  # by how their names end
    ".gz": ("gzip", b"\x1f\x8b", gzip.open),
    ".bz2": ("bzip2", b"BZh", bz2.open),
    ".xz": ("xz", b"\xfd7zXZ\0", lzma.open),
}
# how a file begins that is not read, what that is, and how to get at its content
FOREIGN = (
    (rb"\x28\xb5\x2f\xfd", "a Zstandard file", "zstd -d '{}'"),
    (rb"PK\x03\x04", "a zip archive", "unzip '{}'"),
    (rb"7z\xbc\xaf\x27\x1c", "a 7z archive", "7z x '{}'"),
    (rb"%PDF-", "a PDF file", "pdftotext '{}'"),
    (rb"version https://git-lfs", "a pointer of Git LFS", "git lfs pull"),
    (rb"\{\\rtf", "an RTF file", "unrtf --text '{}'"),
    *((re.escape(kind[1]), "packed twice", f"unpack it to a name in {end}") for end, kind in PACKED.items()),
)
ZERO = "tar -xf, if it is an archive; iconv -f UTF-16LE -t UTF-8, if it is text"
WIKI = "python -m wikiextractor.WikiExtractor --json -o wiki '{}'"
NO_TEXT = (
    (rb"\xff\xfe\0\0|\0\0\xfe\xff", "UTF-32", "iconv -f UTF-32 -t UTF-8 '{}' > TEXT"),
    (rb"\xff\xfe|\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8 '{}' > TEXT"),
    (rb"(?s:.*)\0", "not a text file: it has a zero byte", ZERO),
    (rb"(?s:.{,1000})<mediawiki", "a dump of MediaWiki", WIKI),
    (rb"(?s:.*)(\nM  END|@<TRIPOS>)", "for prepare_smiles.py", "obabel '{}' -O molecules.smi"),
    (rb"(?i)<(\?xml\b|!--|!doctype\b|html\b|tei\b|page\b)", "markup", "extract its text first"),
    (rb"(?s)<([A-Za-z][\w:.-]*)(\s[^<>]*)?>(\s*<\w|.*</\1\s*>)", "markup", "extract its text first"),
    (rb'\[\s*([{"]|\[\s*["{])', "a JSON array, not an object a line", "jq -c '.[]' '{}' > LINES.jsonl"),
    (rb"[^\n\r]*\r[^\n\r]*\r[^\n]*+\s*$", "text of a single line", "tr '\\r' '\\n' < '{}' > TEXT"),
)
BOM = b"\xef\xbb\xbf"
MOST_BYTES = 1 << 24  # of a line, and of a document, so that memory is bounded
SAMPLE = 1 << 16  # bytes that a layout is judged by
MOLECULES = "has SMILES: give it to prepare_smiles.py"
FEW_LINES = 5  # too few to say that they are no text
_STRUCTURE = re.compile(r"[A-Za-z\[].*[][()=#1-9]")  # begins as a SMILES, and is more than letters
_NAME = re.compile(r"\w{1,40}")  # of a column
WRAPPED_LENGTH = 100  # characters of a line


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file's content, unpacked if it is gzip, bzip2 or xz. Raises UserError if it does not exist, is packed
    otherwise, is not what its name says, or is damaged."""
    if not path.is_file():
        raise UserError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    with path.open("rb") as raw:
        start = raw.peek(8)
        packed = [end for end, (_, magic, _) in PACKED.items() if start.startswith(magic)]
        if path.suffix in PACKED and packed != [path.suffix]:
            raise UserError(f"{path} is no {path.suffix} file: rename it, or download it again")
        try:
            file = PACKED[packed[0]][2](raw) if packed else raw
            start = file.peek(8)
            _refuse(path, start, FOREIGN)
            yield file
        except (EOFError, OSError, zlib.error, lzma.LZMAError) as error:
            if getattr(error, "errno", None) is not None or not packed:  # of another file, or the disk
                raise
            kind = PACKED[packed[0]][0]
            raise UserError(f"{path} is a damaged {kind} file ({error}): download it again") from error


def _refuse(path: Path, start: bytes, kinds: tuple[tuple[bytes, str, str], ...]) -> None:
    """Raises UserError if a file that begins so is of one of these kinds."""
    for pattern, what, convert in kinds:
        if re.match(pattern, start):
            raise UserError(f"{path} is {what}: {convert.replace('{}', str(path))}")


def bounded_lines(file: BinaryIO, most: int = MOST_BYTES) -> Iterator[bytes]:
    """The lines of a file; of one of ``most`` bytes or more, the first so many."""
    while line := file.readline(most):
        piece = line
        while piece and not piece.endswith(b"\n"):
            piece = file.readline(most)
        yield line


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a text in UTF-8, plain or packed; a byte order mark is
    skipped. Lines end at ``\\n`` or ``\\r\\n`` only: other line separators may stand within a sentence.
    Raises UserError if it cannot be read, or is not UTF-8."""
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(bounded_lines(file), 1):
                if len(line) == MOST_BYTES:
                    raise UserError(f"{path}, line {number} has {MOST_BYTES:,} bytes or more")
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: invalid UTF-8 ({error.reason}, byte {error.start}): "
            f"iconv -f CP1252 -t UTF-8 '{path}' > TEXT, if it is of Windows (or -f UTF-16)"
        ) from None


def invalid_byte(text: str) -> str:
    """Says which byte is the first that was not UTF-8 and was kept by "surrogateescape"; "" if none was."""
    escaped = re.search("[\udc80-\udcff]", text)
    return f"invalid UTF-8: byte {ord(escaped[0]) - 0xDC00:#04x}" if escaped else ""


def text_layout(path: Path, column: str, plain: bool = False) -> str:
    """How a file holds text: PARQUET, TABLE (CSV or TSV, with this column), JSON (an object a line),
    WIKIEXTRACTOR, BOOKS (of wrapped lines), EMPTY, or PARAGRAPHS (any other); if ``plain``, lines that look
    like a dictionary or like SMILES are text. Raises UserError if it is not text in UTF-8, or of a form that
    is not read."""
    with opened(path) as file:
        start = file.read(SAMPLE)
    cut_off = len(start) == SAMPLE
    if start.startswith(b"PAR1"):
        return PARQUET
    if path.suffix.lower() == ".parquet":
        raise UserError(f"{path} is named .parquet but is no such file: rename it, or download it again")
    start = start.removeprefix(BOM).lstrip()
    if start.startswith(b"<doc "):
        return WIKIEXTRACTOR
    _refuse(path, start, NO_TEXT)
    if not start:
        return EMPTY
    lines = start.split(b"\n")[: -1 if cut_off else None]
    if start.startswith(b'"') and all(isinstance(_value(line), str) for line in lines if line.strip()):
        convert = f"jq -c '{{text: .}}' '{path}' > LINES.jsonl"
        raise UserError(f"{path} has JSON strings, not an object a line: {convert}")
    if start.startswith(b"{"):
        if len(lines) > 1 and not any(isinstance(_value(line), dict) for line in lines):
            raise UserError(f"{path} is JSON without an object a line: jq -c . '{path}' > LINES.jsonl")
        rows = [row for row in map(_value, lines) if isinstance(row, dict)]
        if rows and not any(column in row for row in rows):
            keys = ", ".join(map(repr, list(rows[0])[:20]))
            raise UserError(f"{path} has no {column!r}: its keys are {keys}; choose with --text-column")
        return JSON
    texts = [line.decode("utf-8", "replace").strip() for line in lines]
    marks = ",\t;|"
    headers = [[cell.strip(' "') for cell in texts[0].split(mark)] for mark in marks] if texts else []
    named = [h for h in headers if len(h) > 1 and column in h and all(map(_NAME.fullmatch, h))]
    endings = {suffix.lower() for suffix in path.suffixes[-2:]}
    if named or {".csv", ".tsv"} & endings:
        return TABLE
    if sum("\ufffd" in text for text in texts) > len(texts) / 2:
        raise UserError(f"{path} is not UTF-8: iconv -f CP1252 -t UTF-8 '{path}' > TEXT, if it is of Windows")
    of_molecules = {".smi", ".smiles"} & endings
    if not plain and (what := MOLECULES if of_molecules else _no_prose([line for line in texts if line])):
        raise UserError(f"{path} {what} (--layout {PARAGRAPHS} of prepare_text.py reads it as text)")
    return BOOKS if _is_wrapped(texts) else PARAGRAPHS


def _no_prose(lines: list[str]) -> str:
    """What lines are if they are no text, and where to give it."""
    rows = [line.split() for line in lines]
    first = [words[0] for words in rows]
    if len(lines) < FEW_LINES:
        return ""
    for mark, least in ((",", 2), ("\t", 1), (";", 1), ("|", 1)):
        if len(marks := {line.count(mark) for line in lines}) == 1 and min(marks) >= least:
            return f"is a table, separated by {mark!r}: name it .csv, and choose with --text-column"
    if all(len(words) == 2 and words[1].isdecimal() for words in rows) and len({*first}) == len(first):
        return "is a dictionary: give it as --dictionary"
    if all(word.startswith("InChI=") for word in first[1:]):
        return "has InChI: convert it, obabel -iinchi, for prepare_smiles.py"
    if sum(_STRUCTURE.match(word) is not None for word in first) > 0.2 * len(first):
        from fs_plugins.data.smiles_tokens import is_molecule  # takes seconds

        if sum(map(is_molecule, first)) > 0.9 * len(first):
            return MOLECULES
    return ""


def _value(line: bytes):
    """Of a line of JSON; None if it is none."""
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _is_wrapped(lines: list[str]) -> bool:
    """Whether paragraphs go on over lines, and end at empty ones: lines are short, and most of those that
    another one follows do not end a sentence."""
    full = [line for line in lines if line]
    inner = [line for line, after in zip(lines, lines[1:], strict=False) if line and after]
    short = sum(len(line) <= WRAPPED_LENGTH for line in full)
    going_on = sum(line[-1].isalnum() or line[-1] in ",;-" for line in inner)
    return len(inner) >= 10 and "" in lines and short >= 0.9 * len(full) and going_on >= 0.7 * len(inner)
