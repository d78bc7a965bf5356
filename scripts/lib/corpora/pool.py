"""Worker processes that encode blocks and write parts; only a few blocks are held at a time."""

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

from lib.command_line import UserError
from lib.corpora.blocks import Block, Encoder
from lib.corpora.parts import write_part

BLOCKS_PER_WORKER = 3  # one being worked on, the others on their way

Job = tuple[Block, Path]  # and the file of its part
Done = tuple[int, dict[str, int]]  # a block's weight, and its sentences and rejections

_encode: Encoder


def encode_job(encode: Encoder, job: Job) -> Done:
    """Encodes a block and writes its part."""
    block, path = job
    encoded = encode(block)
    write_part(path, block, encoded)
    sentences = sum(map(len, encoded.splits.values()))
    return block.weight, {"sentences": sentences, "rejected": len(encoded.rejections)}


def _start_worker(encode: Encoder) -> None:
    global _encode
    _encode = encode
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent handles it
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work forever."""
    wait_for_any([multiprocessing.parent_process().sentinel])
    os._exit(1)


def _work(job: Job) -> Done:
    return encode_job(_encode, job)


def _executor(encode: Encoder, workers: int) -> ProcessPoolExecutor:
    """Workers of a fork server that imports the encoder's module once for all of them."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([getattr(encode, "__module__", "__main__")])
    # before Python 3.12 the fork server does not get this process's search path
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    return ProcessPoolExecutor(workers, context, _start_worker, (encode,))


def run_jobs(jobs: Iterable[Job], encode: Encoder, workers: int) -> Iterator[Done]:
    """Does all jobs, in this process if ``workers`` is 1; yields as they are done.

    Raises:
        UserError: if a worker was killed, most likely for memory.
    """
    if workers == 1:
        for job in jobs:
            yield encode_job(encode, job)
        return
    executor, running = _executor(encode, workers), set()
    try:
        for job in jobs:
            running.add(executor.submit(_work, job))
            if len(running) >= workers * BLOCKS_PER_WORKER:
                done, running = wait(running, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    except BrokenProcessPool as error:
        raise UserError(
            "a worker was killed, most likely because memory ran out: rerun the same command with fewer "
            "--workers; it resumes"
        ) from error
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
