"""Runs a command on GPUs that no other job of this user has.

    python -m recipes.on_gpu [--gpus N] [--jobs-per-gpu J] [--log FILE] [--usage FILE] -- COMMAND...

Takes a lock file for each of N visible GPUs (default: 1), waits until N are free, and sets
CUDA_VISIBLE_DEVICES; with --gpus 0 the command sees none. With --jobs-per-gpu, up to J such jobs share a GPU:
a small model alone leaves most of it idle. With --log, the output is appended to a file, and its end is shown
if the command fails. With --usage, a line of JSON is appended to a file: seconds, machine,
exit status.

The command and all that it starts end with this process, and this process ends with the one that started its
shell: trainings never outlive the engine, and so never write into the folders of the next one's.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path

from recipes.command_line import RecipeError, argument_parser, count, positive, run_main

POLL = 0.5  # seconds
GRACE = 10.0  # seconds between SIGTERM and SIGKILL
LOG_LINES = 15


def visible_gpus(environment: Mapping[str, str] = os.environ) -> list[str]:
    """What CUDA_VISIBLE_DEVICES can name: UUIDs, which mean the same GPU in every job of a machine.

    A GPU named by a number in CUDA_VISIBLE_DEVICES is looked up; one that is named otherwise stays as it is.
    """
    query = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        found = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split()
    except (OSError, subprocess.CalledProcessError):
        found = []
    asked = environment.get("CUDA_VISIBLE_DEVICES")
    if asked is None:
        return found
    gpus = []
    for name in asked.split(","):
        if name.isdigit() and int(name) >= len(found) > 0:
            break  # CUDA sees the ones before the first that does not exist
        if not name or name.startswith("-"):
            break
        gpus.append(found[int(name)] if name.isdigit() and found else name)
    return gpus


def try_slot(path: Path, slot: int, jobs: int) -> list[int]:
    """File descriptors that hold a slot of a GPU; none if another job holds it.

    A GPU's file is locked for one job, or shared by several, of which each locks a file of its slot.
    """
    locks = [(path, fcntl.LOCK_EX)]
    if jobs > 1:
        locks = [(path, fcntl.LOCK_SH), (path.with_suffix(f".{slot}.lock"), fcntl.LOCK_EX)]
    held = []
    for file, mode in locks:
        held.append(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        try:
            fcntl.flock(held[-1], mode | fcntl.LOCK_NB)
        except BlockingIOError:
            for descriptor in held:
                os.close(descriptor)
            return []
    return held


def take(gpus: list[str], number: int, jobs: int = 1) -> dict[str, list[int]]:
    """Locks ``number`` of the GPUs, waiting until they are free; those with the fewest jobs come first.

    Args:
        jobs: that may share a GPU.

    Returns:
        The GPUs' names, each with the file descriptors that hold its locks.
    """
    folder = Path(tempfile.gettempdir()) / f"exlm-gpus-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    waited = False
    while True:
        held: dict[str, list[int]] = {}
        for slot in range(jobs):
            for gpu in gpus:
                if gpu not in held and len(held) < number:
                    path = folder / f"{gpu.replace('/', '-')}.lock"
                    if descriptors := try_slot(path, slot, jobs):
                        held[gpu] = descriptors
        if len(held) == number:
            return held
        release(held)  # all or none: two jobs never wait for each other
        if not waited:
            print(
                f"waiting for {number} of {len(gpus)} GPUs, which other jobs use; the workflow's setting "
                "jobs_per_gpu lets small models share one",
                file=sys.stderr,
            )
            waited = True
        time.sleep(POLL)


def release(held: dict[str, list[int]]) -> None:
    """Unlocks GPUs."""
    for descriptors in held.values():
        for descriptor in descriptors:
            os.close(descriptor)


def parent_of(process: int) -> int | None:
    """The parent's ID; None if it cannot be told."""
    try:
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError, ValueError):
        return None


def engine() -> tuple[int, int | None]:
    """The shell that started this process, and the process that started the shell."""
    return os.getppid(), parent_of(os.getppid())


def end(child: subprocess.Popen) -> None:
    """Ends a command and all of its process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGTERM)
        deadline = time.monotonic() + GRACE
        while time.monotonic() < deadline:
            child.poll()
            os.killpg(child.pid, 0)  # raises when nobody is left
            time.sleep(POLL / 5)
        os.killpg(child.pid, signal.SIGKILL)


def run(command: list[str], log: Path | None, usage: Path | None, environment: dict[str, str]) -> int:
    """The command's exit status; 128 + N if signal N ended it."""
    started_by, start, child = engine(), time.monotonic(), None
    times = os.times()
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(log.open("ab")) if log else None
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT if stream else None,
                env=environment,
                start_new_session=True,
            )
            while child.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(POLL)
                if engine() != started_by:
                    end(child)
        except BaseException:  # Ctrl-C, SIGTERM
            if child is not None:
                end(child)
            raise
        finally:
            if usage and child is not None:
                after = os.times()
                cpu = (
                    after.children_user + after.children_system - times.children_user - times.children_system
                )
                line = {
                    "wall_seconds": round(time.monotonic() - start, 2),
                    "cpu_seconds": round(cpu, 2),
                    "machine": platform.node(),
                    "gpus": environment["CUDA_VISIBLE_DEVICES"],
                    "exit_status": child.poll(),
                }
                with usage.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def end_of(log: Path) -> str:
    """The last lines of a log, without the rest of fairseq's very long ones."""
    with log.open(encoding="utf-8", errors="replace") as file:
        return "\n".join(line.rstrip()[:300] for line in deque(file, maxlen=LOG_LINES))


def main() -> int:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("--gpus", type=count, default=1, metavar="N")
    add("--jobs-per-gpu", type=positive, default=1, metavar="J")
    add("--log", type=Path, metavar="FILE")
    add("--usage", type=Path, metavar="FILE")
    add("command", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    args = parser.parse_args()
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        parser.error("give a command after --")
    taken: dict[str, list[int]] = {}
    if args.gpus:
        gpus = visible_gpus()
        if len(gpus) < args.gpus:
            raise RecipeError(f"--gpus {args.gpus}: this job sees {len(gpus)} GPUs; see `nvidia-smi -L`")
        taken = take(gpus, args.gpus, args.jobs_per_gpu)
    for path in filter(None, (args.log, args.usage)):
        path.parent.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ",".join(taken)}
    status = run(command, args.log, args.usage, environment)
    if status and args.log:
        print(
            f"failed with exit status {status}; the end of {args.log}:\n{end_of(args.log)}", file=sys.stderr
        )
    return status


if __name__ == "__main__":
    sys.exit(run_main(main, interrupted=""))
