"""Files and folders that are complete or absent, as all results are written."""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

UNFINISHED = "unfinished"  # in the folder of a run whose last call --stop-time-hours ended
LOCK_SECONDS = 10.0  # seconds to wait for a run that is ending


@contextlib.contextmanager
def naming_errors(path: str | os.PathLike) -> Iterator[None]:
    """Puts a file's name before whatever its reading raises, unless the error has it already: raises
    ValueError with the error's own text, and its type where that says something."""
    try:
        yield
    except Exception as error:  # libraries raise Exception itself for what they cannot read
        plain = isinstance(error, ValueError | OSError)
        if plain and (str(path) in str(error) or getattr(error, "filename", None) is not None):
            raise
        raise ValueError(f"{path}: {error if plain else f'{type(error).__name__}: {error}'}") from error


@contextlib.contextmanager
def atomic(path: str | os.PathLike, mode: str = "w") -> Iterator[IO]:
    """Yields a file to write (text in UTF-8 with ``\\n``, or binary with mode "wb") that gets its name when
    it is complete and on the disk; if anything fails, whatever had that name stays as it was. In text, lone
    surrogates are written as backslash escapes. Raises OSError, which says what to do."""
    path = Path(path)
    text = {} if "b" in mode else {"encoding": "utf-8", "errors": "backslashreplace", "newline": "\n"}
    fresh = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        if path.exists() and not path.is_file():
            raise OSError(errno.EEXIST, "a folder, a pipe or a device has that name")
        with open(fresh, mode, **text) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except (OSError, RuntimeError) as error:
        cause = error if isinstance(error, OSError) else error.__context__  # torch raises its own over it
        if not isinstance(cause, OSError) or str(cause).startswith("cannot write "):  # of an inner ``atomic``
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
    write_text(path, json_text(content, indent))


def json_text(content, indent: int = 1) -> str:
    """Returns content as JSON."""
    return json.dumps(content, indent=indent, ensure_ascii=False) + "\n"


def copy(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copies a file's content atomically."""
    with open(source, "rb") as content, atomic(target, "wb") as file:
        shutil.copyfileobj(content, file)


def check_absent(target: Path, overwrite: bool | None = None) -> None:
    """Raises FileExistsError if ``target`` exists and is not an empty folder, and is not to be overwritten
    (None: cannot be asked to)."""
    if not overwrite and (
        target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir())))
    ):
        way_out = "remove it first" if overwrite is None else "give --overwrite"
        raise FileExistsError(f"{target} exists already: choose another OUTPUT, or {way_out}")


@contextlib.contextmanager
def new_folder(target: Path, replaces: str | None = None) -> Iterator[Path]:
    """Yields a folder to fill, which becomes ``target`` if all goes well and is removed otherwise. Until then
    it is .NAME.partial beside ``target``; one that a killed process left is removed. An existing
    ``target`` that has a file named ``replaces`` is replaced.

    Raises:
        FileExistsError: if ``target`` exists and is not an empty folder.
        ValueError: if another process fills it.
        OSError: if it is a link or a mount point, before any work.
    """
    target = Path(os.path.abspath(target))  # which, unlike ".", has a name
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.partial")
    lock = FileLock(f"{fresh}.lock", timeout=LOCK_SECONDS)
    try:
        lock.acquire()
    except Timeout:
        raise ValueError(f"another run is at work on {target}: wait for it, or stop it") from None
    try:
        if target.is_symlink() or os.path.ismount(target):
            raise OSError(errno.EBUSY, "a link or a mount point cannot be replaced", str(target))
        replace = replaces is not None and (target / replaces).is_file()
        if not replace:
            check_absent(target)
        shutil.rmtree(fresh, ignore_errors=True)
        fresh.mkdir()
        yield fresh
        if replace:
            shutil.rmtree(target)
        with contextlib.suppress(FileNotFoundError):
            target.rmdir()  # is empty, see above
        fresh.replace(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
