"""Runs a command on GPUs that no other job of this user has.

    python -m lib.run.on_gpu [--gpus N] [--jobs-per-gpu J] [--log FILE] -- COMMAND...

Snakemake starts no more jobs than there is room for; this says which GPUs each has. It sets
CUDA_VISIBLE_DEVICES to N free ones of the visible GPUs (default: 1), waiting for them if other jobs have
them; with --gpus 0 the command sees none. With --jobs-per-gpu, up to J such jobs share a GPU: a small model
alone leaves most of it idle. With --log, the output is appended to a file instead of shown, and its end is
shown if the command fails.

A GPU is held by a lock on a file that the command and all that it starts have open: as long as one of them
runs, even if this process was killed.
"""

import contextlib
import fcntl
import itertools
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from lib.command_line import UserError, argument_parser, count, counted, positive, script

POLL = 0.5  # seconds


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


def acquire(gpus: list[str], number: int, jobs: int = 1) -> dict[str, int]:
    """Waits for ``number`` of the GPUs, each of which has room for ``jobs`` jobs; those whose first place is
    free come first. Returns their names, each with the file descriptor whose lock holds it, which children
    inherit. Raises UserError if the folder of the locks is not this user's alone."""
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
                file = os.open(folder / f"{gpu.replace('/', '-')}.{slot}.lock", os.O_CREAT | os.O_RDWR, 0o600)
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    os.close(file)
                else:
                    os.set_inheritable(file, True)
                    held[gpu] = file
        if len(held) == number:
            return held
        for file in held.values():  # all or none: two jobs never wait for each other
            os.close(file)
        if not waiting:
            there = counted(len(gpus), "GPU")
            print(f"waiting for {number} of {there}, which other jobs have", file=sys.stderr)
        waiting = True
        time.sleep(POLL)


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
    held = acquire(gpus, args.gpus, args.jobs_per_gpu)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(held)}
    output = {}
    if args.log:
        args.log.parent.mkdir(parents=True, exist_ok=True)
        output = {"stdout": args.log.open("a"), "stderr": subprocess.STDOUT}
    child = subprocess.Popen(args.command, env=environment, close_fds=False, **output)
    for number in (signal.SIGTERM, signal.SIGHUP):  # the command ends in its own way
        signal.signal(number, lambda number, _: child.send_signal(number))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to the command, too
    status = child.wait()
    if args.log and status not in (0, 130, -signal.SIGINT, -signal.SIGTERM, -signal.SIGPIPE):
        lines = args.log.read_text(encoding="utf-8", errors="replace").splitlines()[-15:]
        print(f"failed with exit status {status}; the end of {args.log}:", file=sys.stderr)
        print(*(line[:300] for line in lines), sep="\n", file=sys.stderr)  # some of fairseq's are very long
    return status if status >= 0 else 128 - status
