"""A training with --lr LR of lib.run.launch, evaluated by EVALUATE; also a program, so that it can be killed.

python -m tests.support.launched PROGRAM WORD EVALUATE -- SAVE LR
"""

import shlex
import sys
from argparse import Namespace
from pathlib import Path
from unittest import mock

from lib.command_line import Flags, script
from lib.run import launch


def resolve(evaluated: bool, save: str, lr: str) -> launch.Training:
    command = ["script.sh", save, lr]
    args = Namespace(save=Path(save), user=Flags(), print=False, gpus=0, command=command)
    flags, evaluation = Flags.of(f"--lr {lr} --log-interval 1"), ["--device", "cpu"] if evaluated else None
    return launch.Training(args, "data", flags, evaluation, {"seed": 1})


def main(words) -> int:
    (*template, evaluate), words = launch.called(words)
    with mock.patch.object(launch, "EVALUATE", shlex.split(evaluate)):
        return script(launch.launch)(resolve(bool(evaluate), *words), [*template, "@flags"])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
