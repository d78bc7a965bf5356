"""Worker processes that encode blocks; only a few blocks are held at a time, and results keep their order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait

from lib.command_line import UserError

HELD_PER_WORKER = 3  # blocks: one being worked on, the others on their way

_work: Callable


def _start(work: Callable) -> None:
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent handles it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work forever."""
    wait([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _call(item):
    return _work(item)


def in_order(work: Callable, items: Iterable, workers: int) -> Iterator[tuple]:
    """(item, work(item)) in the order of the items, which are read as they are needed.

    Args:
        work: pickled once for each worker.
        workers: processes; 1 works in this one.

    Raises:
        UserError: if a worker was killed, most likely for memory.
    """
    if workers == 1:
        yield from ((item, work(item)) for item in items)
        return
    context = multiprocessing.get_context("spawn")  # a fork would copy the threads' locks
    executor, waiting = ProcessPoolExecutor(workers, context, _start, (work,)), deque()
    try:
        for item in items:
            waiting.append((item, executor.submit(_call, item)))
            if len(waiting) == workers * HELD_PER_WORKER:
                first, result = waiting.popleft()
                yield first, result.result()
        for item, result in waiting:
            yield item, result.result()
    except BrokenProcessPool as error:
        raise UserError(
            "a worker was killed, most likely because memory ran out: rerun the same command with fewer "
            "--workers; it resumes"
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
