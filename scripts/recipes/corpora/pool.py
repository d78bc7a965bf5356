"""Worker processes that encode blocks and write parts; a few blocks are held at a time, whatever the corpus's
size."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait as wait_for_any
from pathlib import Path

from recipes.corpora.blocks import Block, Encoder, PreparationError
from recipes.corpora.parts import write_part

BLOCKS_PER_WORKER = 3  # one being worked on, the others on their way

# A job: the block, the file of its part, and the part's fingerprint.
Job = tuple[Block, Path, str]

_encode: Encoder


def encode_job(encode: Encoder, job: Job) -> tuple[Block, dict[str, int]]:
    """Encodes a block and writes its part; returns what to show: sentences and rejections."""
    block, path, fingerprint = job
    encoded = encode(block)
    write_part(path, block, encoded, fingerprint)
    sentences = sum(len(of_split) for of_split in encoded.splits.values())
    return block, {"sentences": sentences, "rejected": len(encoded.rejections)}


def _start_worker(encode: Encoder) -> None:
    global _encode
    _encode = encode
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent answers it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    wait_for_any([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _work(job: Job):
    block, shown = encode_job(_encode, job)
    return block.weight, shown


def _context(encode: Encoder):
    """A fork server that has imported the encoder's module once for all workers.

    Before Python 3.12 it does not take over this process's search path, so it gets it through the
    environment.
    """
    context = multiprocessing.get_context("forkserver")
    module = getattr(encode, "__module__", "__main__")
    context.set_forkserver_preload([module])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    try:
        from multiprocessing.forkserver import ensure_running

        ensure_running()
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
    return context


def run_jobs(jobs: Iterable[Job], encode: Encoder, workers: int) -> Iterator[tuple[int, dict[str, int]]]:
    """Does all jobs, in this process where workers is 1; gives each one's weight and figures as it is done.

    Raises:
        PreparationError: if a worker ended before its time (killed, most likely for memory).
    """
    if workers == 1:
        for job in jobs:
            block, shown = encode_job(encode, job)
            yield block.weight, shown
        return
    executor = ProcessPoolExecutor(workers, _context(encode), _start_worker, (encode,))
    under_way = set()
    try:
        for job in jobs:
            under_way.add(executor.submit(_work, job))
            if len(under_way) >= workers * BLOCKS_PER_WORKER:
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while under_way:
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except BrokenProcessPool as error:
        raise PreparationError(
            "a worker was ended from outside, most likely for want of memory. What is done is kept: "
            "the same command goes on where it stood; give it fewer --workers"
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
