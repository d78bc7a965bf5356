"""Opens files of text, plain or compressed (gzip, bzip2, xz), for all preparations."""

import bz2
import gzip
import io
import lzma
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import BinaryIO

from lib.command_line import UserError

from fs_plugins.files import naming_errors

# first bytes of a file -> how to open it
OPENERS = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
COMPRESSED = (".gz", ".bz2", ".xz")  # how the names of such files end


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Yields a file to read bytes from, decompressed if it begins so; errors have its name. Raises UserError
    for a pipe, as <(zcat FILE), which can be read only once."""
    if path.is_fifo():
        raise UserError(f"{path} is a pipe, and is read more than once: write it to a file, and give that")
    with naming_errors(path), path.open("rb") as raw:
        start = raw.peek(8)
        unpack = next((unpack for magic, unpack in OPENERS.items() if start.startswith(magic)), nullcontext)
        with unpack(raw) as file:
            yield file


def suffix_of(path: Path) -> str:
    """Returns how a file's name ends, in lower case and without its compression: .csv of A.CSV.gz."""
    return (path.with_suffix("") if path.suffix.lower() in COMPRESSED else path).suffix.lower()


def lines_of(path: Path, errors: str = "strict") -> Iterator[tuple[int, str]]:
    """Yields (line number from 1, line without its end) of a text in UTF-8; a byte order mark is skipped.
    Lines end at ``\\n`` or ``\\r\\n`` only: other line separators may stand within a sentence."""
    with opened(path) as file:
        for number, line in enumerate(io.TextIOWrapper(file, "utf-8-sig", errors, newline="\n"), 1):
            yield number, line.removesuffix("\n").removesuffix("\r")
