"""A training with --lr LR of lib.run.launch, evaluated by EVALUATE; also a program, so that it can be killed.

python -m tests.support.launched PROGRAM WORD EVALUATE -- SAVE LR
"""

import shlex
import sys
from argparse import Namespace
from functools import partial
from pathlib import Path
from unittest import mock

from lib.command_line import Flags, script
from lib.run import launch


def resolve(evaluated: bool, words) -> launch.Training:
    save, lr = words
    command = ["script.sh", *words]
    args = Namespace(save=Path(save), user=Flags(), print=False, gpus=0, command=command)
    flags, evaluation = Flags.of(f"--lr {lr} --log-interval 1"), ["--device", "cpu"] if evaluated else None
    return launch.Training(args, "data", flags, evaluation, {"seed": 1})


def main(words) -> int:
    *template, evaluate = words[: words.index("--")]
    words = [*template, "@flags", *words[words.index("--") :]]
    with mock.patch.object(launch, "EVALUATE", shlex.split(evaluate)):
        return script(launch.launch)(words, partial(resolve, bool(evaluate)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
