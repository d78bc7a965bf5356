"""Files that are complete or absent, as all results are written. Needs the standard library alone."""

import contextlib
import errno
import json
import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def atomic(path: str | os.PathLike, mode: str = "w") -> Iterator[IO]:
    """A file to write (text in UTF-8 with ``\\n``, or binary with mode "wb") that gets its name when it is
    complete, on the disk and found whole there; if anything fails, whatever had that name stays as it was.
    In text, what is no character (half of one, in Python's strings) becomes its code.

    Raises:
        OSError: if it cannot be written; says what to do.
    """
    path = Path(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        with open(fresh, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            length = file.tell()
        check_whole(fresh, path.suffix, length)
        os.replace(fresh, path)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch raises its own over it
        if not isinstance(cause, OSError):
            raise
        raise OSError(
            f"cannot write {path} ({cause.strerror or cause}): free some space or choose another folder, and "
            "rerun the same command; no incomplete file was kept"
        ) from error
    finally:
        with contextlib.suppress(OSError):  # a file system that cannot be written to holds no leftover either
            fresh.unlink(missing_ok=True)


def write_text(path: str | os.PathLike, text: str) -> None:
    """Writes a text atomically."""
    with atomic(path) as file:
        file.write(text)


def write_json(path: str | os.PathLike, content, indent: int = 1) -> None:
    """Writes JSON atomically."""
    write_text(path, json.dumps(content, indent=indent, ensure_ascii=False) + "\n")


def copy(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copies a file's content atomically."""
    with open(source, "rb") as content, atomic(target, "wb") as file:
        shutil.copyfileobj(content, file)


def check_whole(path: Path, suffix: str, length: int) -> None:
    """Reads a new file's index back: the directory of a zip (.pt, .npz), the header of .safetensors.

    Raises:
        OSError: if it is not as long as it was written, or its index says otherwise.
    """
    size, start, end = path.stat().st_size, 0, length
    try:
        if suffix in (".pt", ".npz"):
            with zipfile.ZipFile(path) as archive:  # which allows for bytes before the first entry
                start = min(entry.header_offset for entry in archive.infolist())
        elif suffix == ".safetensors":
            with path.open("rb") as file:
                header = int.from_bytes(file.read(8), "little")
                tensors = json.loads(file.read(min(header, size)))
            ends = [tensor["data_offsets"][1] for tensor in tensors.values() if "shape" in tensor]
            end = 8 + header + max(ends, default=0)
    except (zipfile.BadZipFile, ValueError):
        start = -1
    if start != 0 or not size == length == end:
        raise OSError(errno.EIO, f"of {length:,} bytes only a part reached the disk", str(path))
