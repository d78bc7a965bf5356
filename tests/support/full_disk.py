"""A disk that is full for a moment: of all writes below a folder, one fails halfway."""

import builtins
import contextlib
import errno
import io
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest import mock

OPEN = io.open


@contextlib.contextmanager
def full_once(folder: Path, at: int) -> Iterator[Callable[[], bool]]:
    """Write number ``at`` (from 1) of Python's files below the folder gets half of its bytes to the disk, and
    that of the rest raises OSError; yields whether it has come to that."""
    left = at

    class File(io.FileIO):
        def write(self, content):
            nonlocal left
            left -= 1
            if left == -1 or (left == 0 and len(content) == 1):
                left = -1
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(memoryview(content)[: len(content) // 2] if left == 0 else content)

    def open(file, mode="r", buffering=-1, encoding=None, errors=None, newline=None, **more):
        below = isinstance(file, (str, os.PathLike)) and Path(file).absolute().is_relative_to(folder)
        if not below or not set(mode) & set("wax"):
            return OPEN(file, mode, buffering, encoding, errors, newline, **more)
        raw = File(file, mode.replace("b", "").replace("t", ""))
        if buffering == 0:
            return raw
        binary = io.BufferedWriter(raw)
        return binary if "b" in mode else io.TextIOWrapper(binary, encoding, errors, newline)

    with mock.patch.object(builtins, "open", open), mock.patch.object(io, "open", open):
        yield lambda: left < 0


def at_each_write(folder: Path, act: Callable[[int], None]) -> Iterator[tuple[int, Exception | None]]:
    """Calls ``act(at)`` for at = 1, 2, ..., each time with a disk that is full at that write, until it comes
    to fewer; yields ``at`` and what it raised."""
    for at in itertools.count(1):
        error = None
        with full_once(folder, at) as failed:
            try:
                act(at)
            except (OSError, RuntimeError, ValueError) as raised:
                error = raised
        yield at, error
        if not failed():
            assert at > 1, "nothing was written"
            return
