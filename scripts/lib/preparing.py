"""What prepares data: text in, plain or gzip; a new folder with datasets out, complete or absent."""

from __future__ import annotations

import contextlib
import gzip
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from lib.command_line import UserError


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """A file's content, decompressed if it is gzip.

    Raises:
        UserError: if it does not exist, or is not what its name says, or is damaged.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    with path.open("rb") as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if path.name.endswith(".gz") and not compressed:
            raise UserError(f"{path} is named .gz but is not gzip: rename it, or download it again")
        try:
            yield gzip.GzipFile(fileobj=raw) if compressed else raw
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise UserError(
                f"{path} is a damaged or truncated gzip file ({error}): download or copy it again"
            ) from error


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end) of a text in UTF-8, plain or gzip; a byte order mark is
    skipped. Lines end at ``\\n`` or ``\\r\\n`` only: other line separators may stand within a sentence.

    Raises:
        UserError: if it cannot be read, or is not UTF-8.
    """
    number = 0
    try:
        with opened(path) as file:
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: invalid UTF-8 ({error.reason} at byte {error.start})"
        ) from None


def check_absent(target: Path, overwrite: bool | None = None) -> None:
    """Raises UserError if ``target`` exists and is not an empty folder, and is not to be overwritten (None:
    cannot be asked to)."""
    if not overwrite and (
        target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir())))
    ):
        way_out = "remove it first" if overwrite is None else "give --overwrite"
        raise UserError(f"{target} exists already: choose another OUTPUT, or {way_out}")


@contextmanager
def new_folder(target: Path, replaces: str | None = None) -> Iterator[Path]:
    """A folder to fill, which becomes ``target`` if all goes well and is removed otherwise.

    Args:
        replaces: if an existing ``target`` has a file of this name, it is replaced.

    Raises:
        UserError: if ``target`` exists and is not an empty folder, or cannot be made or written to.
    """
    replace = replaces is not None and (target / replaces).is_file()
    if not replace:
        check_absent(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise UserError(
            f"cannot write to {target.parent} ({error.strerror}): choose another OUTPUT"
        ) from error
    try:
        yield partial
        partial.chmod(0o755)
        if replace:
            shutil.rmtree(target)
        with contextlib.suppress(FileNotFoundError):
            target.rmdir()  # empty, see above
        partial.replace(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def write_dataset(prefix: Path, sentences: Iterable[Sequence[int]], entries: int) -> tuple[int, int]:
    """Writes fairseq's indexed dataset, PREFIX.bin and PREFIX.idx; returns its sentences and their tokens.

    Args:
        prefix: such as FOLDER/train; the folder is made.
        sentences: of ids.
        entries: of the dictionary; they determine the integers' width.
    """
    import torch
    from fairseq.data.indexed_dataset import make_builder  # takes seconds

    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder, count, tokens = make_builder(f"{prefix}.bin", impl="mmap", vocab_size=entries), 0, 0
    for sentence in sentences:
        builder.add_item(torch.as_tensor(sentence))
        count, tokens = count + 1, tokens + len(sentence)
    builder.finalize(f"{prefix}.idx")
    return count, tokens
