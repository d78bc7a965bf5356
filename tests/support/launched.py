"""A training with --lr LR of lib.run.launch; also a program, so that it can be killed.

python -m tests.support.launched COMMAND... [then COMMAND...] -- SAVE LR
"""

import sys
from argparse import Namespace
from pathlib import Path

from lib.command_line import Flags, script
from lib.run.launch import Training, launch


def resolve(words):
    save, lr = words
    args = Namespace(save=Path(save), user=Flags(), print=False, gpus=0)
    return Training(args, "data", Flags.of(f"--lr {lr} --log-interval 1"), ["--lr", lr], {"seed": 1})


def main(words) -> int:
    return script(launch)("script.sh", resolve, words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
