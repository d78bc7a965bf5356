"""Runs a command that ends when whoever started it ends, and keeps its output."""

import contextlib
import ctypes
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

POLL = 0.5  # seconds
GRACE = 10.0  # seconds between SIGTERM and SIGKILL
LINUX, PR_SET_PDEATHSIG = sys.platform == "linux", 1


def supervise(
    command: list[str],
    log: Path | None = None,
    *,
    show: bool = True,
    environment: Mapping[str, str] | None = None,
    wanted: Callable[[], bool] = lambda: True,
) -> int:
    """Runs a command in a session of its own; returns its exit status, 128 + N if signal N ended it.

    All that it starts ends with it, and it ends with this process, even if that is killed (on Linux).

    Args:
        log: a file to which its output is appended, at once.
        show: write its output to this process's, too.
        wanted: asked every now and then; if it says no, the command is ended.
    """
    with log.open("ab", buffering=0) if log else contextlib.nullcontext() as file:
        child = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
            preexec_fn=partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGTERM) if LINUX else None,
        )

        def write_chunk(chunk: bytes) -> None:
            if show:
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
            with contextlib.suppress(OSError):  # a full disk costs lines of the log, and no training
                if file:
                    file.write(chunk)

        output = selectors.DefaultSelector()
        output.register(child.stdout, selectors.EVENT_READ)
        try:
            while child.poll() is None and wanted():
                if output.select(POLL):
                    if chunk := child.stdout.read1(1 << 16):
                        write_chunk(chunk)
                    else:  # end of its output
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            child.wait(POLL)
        finally:  # Ctrl-C and SIGTERM come here, too
            output.close()
            _end(child)
            write_chunk(child.stdout.read())
    status = child.wait()
    return status if status >= 0 else 128 - status


def _end(child: subprocess.Popen) -> None:
    """Ends all of a session."""
    with contextlib.suppress(ProcessLookupError):  # nobody is left
        os.killpg(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            child.poll()
            os.killpg(child.pid, 0)
            time.sleep(POLL / 5)
        os.killpg(child.pid, signal.SIGKILL)
