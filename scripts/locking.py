"""One run at a time in a folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def locked(file: Path, error: type[Exception]) -> Iterator[None]:
    """Holds a lock file for this process; it is given up however the process ends.

    Args:
        file: the lock, in the folder that it stands for; made where it is not there, and left there.
        error: what to raise.

    Raises:
        error: if another run holds it, or the folder or its drive does not let it be made.
    """
    try:
        lock = file.open("a")
    except OSError as problem:
        raise error(
            f"cannot write to {file.parent} ({problem.strerror}): choose another folder for the result"
        ) from problem
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise error(f"another run is at work in {file.parent}: wait for it, or end it") from None
        except OSError as problem:  # some network drives
            raise error(
                f"{file.parent} is on a drive that has no locks ({problem.strerror}): "
                "choose a folder on another one for the result"
            ) from problem
        yield
