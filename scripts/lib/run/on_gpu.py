"""Runs a command on GPUs that no other job of this user has.

    python -m lib.run.on_gpu [--gpus N] -- COMMAND...

Snakemake starts no more jobs than there are GPUs for; this says which ones each has. It sets
CUDA_VISIBLE_DEVICES to N free ones of the visible GPUs (default: 1), waiting for them if other jobs have
them, and becomes the command; with --gpus 0 the command sees none.

A GPU is held by a lock on a file that the command and all that it starts have open: as long as one of them
runs.
"""

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from lib.command_line import UserError, argument_parser, count, counted, script

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
    gpus = {}
    for name in asked.split(","):  # CUDA sees the ones before the first that does not exist
        if not name or name.startswith("-") or (name.isdigit() and int(name) >= len(there) > 0):
            break
        gpus[there[int(name)] if name.isdigit() and there else name] = True
    return [*gpus]


def acquire(gpus: list[str], number: int) -> dict[str, int]:
    """Waits for ``number`` of the GPUs. Returns their names, each with the file descriptor whose lock holds
    it, which children inherit."""
    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "exlm-gpus")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # not in /tmp, where others could put links
    waiting = False
    while True:
        held = {}
        for gpu in gpus:
            if len(held) < number:
                file = os.open(folder / f"{gpu.replace('/', '-')}.lock", os.O_CREAT | os.O_RDWR, 0o600)
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
def main() -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("--gpus", type=count, default=1, metavar="N")
    add("command", nargs="+", metavar="-- COMMAND")
    args = parser.parse_args()
    gpus = visible_gpus() if args.gpus else []
    if len(gpus) < args.gpus:
        raise UserError(f"--gpus {args.gpus}: this job sees {counted(len(gpus), 'GPU')}; see `nvidia-smi -L`")
    try:
        held = acquire(gpus, args.gpus) if args.gpus else {}
    except OSError as error:
        raise UserError(f"{error}: set XDG_CACHE_HOME to a folder for locks") from None
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # which Python ignores
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(held)}
    os.execvpe(args.command[0], args.command, environment)
