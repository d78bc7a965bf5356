"""Runs a command on GPUs that no other job of this user has.

    python -m lib.run.on_gpu [--gpus N] [--jobs-per-gpu J] [--log FILE] -- COMMAND...

Snakemake starts no more jobs than there is room for; this says which GPUs each has. It sets
CUDA_VISIBLE_DEVICES to N free ones of the visible GPUs (default: 1), waiting for them if another workflow has
them; with --gpus 0 the command sees none. With --jobs-per-gpu, up to J such jobs share a GPU: a small model
alone leaves most of it idle. With --log, the output is appended to a file instead of shown, and its end is
shown if the command fails.

The command and all that it starts end with this process, and this process ends with the workflow that started
its shell: trainings never write into the folders of the next one's.
"""

import contextlib
import itertools
import os
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from filelock import FileLock, Timeout
from lib.command_line import UserError, argument_parser, count, counted, positive, script
from lib.run.supervise import POLL, supervise


def visible_gpus(environment: Mapping[str, str] = os.environ) -> list[str]:
    """Returns what CUDA_VISIBLE_DEVICES can name: UUIDs, which mean the same GPU in every job of a machine.

    A GPU named by a number in CUDA_VISIBLE_DEVICES is looked up; one that is named otherwise stays as it is.
    """
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        there = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        there = []
    asked = environment.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return there
    gpus = []
    for name in asked.split(","):  # CUDA sees the ones before the first that does not exist
        if not name or name.startswith("-") or (name.isdigit() and int(name) >= len(there) > 0):
            break
        gpus.append(there[int(name)] if name.isdigit() and there else name)
    return gpus


def acquire(gpus: list[str], number: int, jobs: int = 1) -> dict[str, FileLock]:
    """Waits for ``number`` of the GPUs, those with the fewest of up to ``jobs`` jobs first. Returns their
    names, each with the lock of its slot, which ends with the process. Raises UserError if the folder of the
    locks is not this user's alone."""
    folder = Path(tempfile.gettempdir()) / f"exlm-gpus-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise UserError(f"{folder} is not a folder of yours alone: remove it, or set TMPDIR to another place")
    waiting = False
    while True:
        held = {}
        for slot, gpu in itertools.product(range(jobs), gpus):
            if gpu not in held and len(held) < number:
                lock = FileLock(folder / f"{gpu.replace('/', '-')}.{slot}.lock", thread_local=False)
                with contextlib.suppress(Timeout):
                    lock.acquire(blocking=False)
                    held[gpu] = lock
        if len(held) == number:
            return held
        for lock in held.values():  # all or none: two jobs never wait for each other
            lock.release()
        if not waiting:
            print(
                f"waiting for {number} of {counted(len(gpus), 'GPU')}, which other jobs have",
                file=sys.stderr,
            )
        waiting = True
        time.sleep(POLL)


def workflow() -> str:
    """Returns the ID of what started the shell that started this process; "" if it cannot be told."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(")")[2].split()[1]
    return ""


@script
def main() -> int:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("--gpus", type=count, default=1, metavar="N")
    add("--jobs-per-gpu", type=positive, default=1, metavar="J")
    add("--log", type=Path, metavar="FILE")
    add("command", nargs="+", metavar="-- COMMAND")
    args = parser.parse_args()
    gpus = visible_gpus() if args.gpus else []
    if len(gpus) < args.gpus:
        raise UserError(f"--gpus {args.gpus}: this job sees {counted(len(gpus), 'GPU')}; see `nvidia-smi -L`")
    if args.log:
        args.log.parent.mkdir(parents=True, exist_ok=True)
    held, started_by = acquire(gpus, args.gpus, args.jobs_per_gpu), workflow()
    status = supervise(
        args.command,
        args.log,
        show=not args.log,
        environment={**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(held)},
        wanted=lambda: workflow() == started_by,
    )
    if status and args.log:
        lines = args.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        print(f"failed with exit status {status}; the end of {args.log}:", file=sys.stderr)
        print(*(line[:300] for line in lines), sep="\n", file=sys.stderr)  # some of fairseq's are very long
    return status
