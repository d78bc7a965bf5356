"""Reading and writing of files: gzip or plain in, atomic out."""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import io
import json
import os
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO

from lib.command_line import UserError

BUFFER_BYTES = 1 << 18
NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def atomic(path: Path, mode: str = "w") -> Iterator[IO]:
    """A file to write (text in UTF-8 with ``\\n``, or binary with mode "wb") that gets its name when it is
    complete and on the disk; if anything fails, whatever had that name stays as it was.

    Raises:
        UserError: if the disk is full or cannot be written to.
    """
    text = {} if "b" in mode else {"encoding": "utf-8", "newline": "\n"}
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(fresh, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except OSError as error:
        raise explained(error, path) from error
    finally:
        with contextlib.suppress(OSError):  # a file system that cannot be written to holds no leftover either
            fresh.unlink(missing_ok=True)


def explained(error: OSError, path: Path) -> UserError:
    """The system's error on writing a file, with the way out."""
    if error.errno in NO_SPACE:
        return UserError(
            f"no space left on the disk of {path.parent} ({error.strerror}): free some space and rerun the "
            "same command to resume; no incomplete file was kept"
        )
    return UserError(
        f"cannot write {path} ({error.strerror or error}): choose another folder, or correct that and rerun "
        "the same command; no incomplete file was kept"
    )


def write_json(path: Path, content) -> None:
    """Writes JSON atomically."""
    with atomic(path) as file:
        file.write(json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_json(path: Path):
    """The content of a JSON file; None if it does not exist.

    Raises:
        UserError: if it is damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise UserError(f"{path} is damaged ({error}): remove it, or choose another folder") from None


def sha256(*paths: Path) -> str:
    """Of the contents of files, in their order."""
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


@contextmanager
def opened(path: Path) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """A file's content, decompressed if it is gzip, and the file itself, whose position is the progress.

    Raises:
        UserError: if it does not exist, or is not what its name says, or is damaged.
    """
    if not path.is_file():
        raise UserError(f"{path} does not exist" if not path.exists() else f"{path} is not a file")
    with open(path, "rb", buffering=0) as raw:
        compressed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        if path.name.endswith(".gz") and not compressed:
            raise UserError(f"{path} is named .gz but is not gzip: rename it, or download it again")
        try:
            yield io.BufferedReader(gzip.GzipFile(fileobj=raw) if compressed else raw, BUFFER_BYTES), raw
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
        with opened(path) as (file, _):
            for number, line in enumerate(file, 1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield number, text.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path}, line {number}: invalid UTF-8 ({error.reason} at byte {error.start})"
        ) from None


def write_lines(path: Path, lines: Iterable[str]) -> None:
    """Writes lines atomically, each with ``\\n``."""
    with atomic(path) as file:
        file.writelines(f"{line}\n" for line in lines)
