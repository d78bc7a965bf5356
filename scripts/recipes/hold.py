"""Claims the folder of a run, and runs the command that works in it, which holds the folder until it ends.

    python -m recipes.hold SAVE MADE_OF COMMAND...

MADE_OF is JSON, {"settings", "inputs", "command"}: what the folder is made of (recipes/folders.py). The
command's output goes to the screen and is appended to SAVE/train.log. The exit status is the command's. Of
processes that train together (RANK, as torchrun sets it) the first claims the folder for all.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from recipes import folders
from recipes.command_line import run_main

RESULTS = ("*.pt", "*.json")  # of whatever is trained
PROGRAMS = {"fairseq-train": [sys.executable, "-m", "fairseq_cli.train"]}
LOG = "train.log"


def hold(save: Path, made_of: dict, command: list[str]) -> int:
    """Runs a command in a folder that it holds.

    Returns:
        The command's exit status; 128 + N if signal N ended it.

    Raises:
        RecipeError: if the folder holds another run, or another run is at work there.
    """
    given, command = command, [*PROGRAMS.get(command[0], command[:1]), *command[1:]]
    if os.environ.get("RANK", "0") != "0":
        return subprocess.call(command)
    lock = folders.lock(save)  # the command inherits it, and holds the folder even if we are killed
    folders.claim(save, **made_of, results=RESULTS, runs=given)
    with (save / LOG).open("ab") as log:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=[lock])
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the command too, which answers it
        while chunk := child.stdout.read1(1 << 16):  # at once, for a progress bar
            for stream in (log, sys.stdout.buffer):
                stream.write(chunk)
                stream.flush()
    status = child.wait()
    if status == -signal.SIGINT:  # after Python's traceback
        print(f"interrupted: rerun the same command to resume; the log is {save / LOG}", file=sys.stderr)
    return status if status >= 0 else 128 - status


def main() -> int:
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    save, made_of, *command = sys.argv[1:]
    return hold(Path(save), json.loads(made_of), command)


if __name__ == "__main__":
    sys.exit(run_main(main))
