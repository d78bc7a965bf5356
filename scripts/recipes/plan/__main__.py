"""Plans a training: what the pages in scripts/ call, by their ``plan`` function (scripts/environment.sh).

    python -m recipes.plan KIND ARGUMENT... 3>assignments

Writes assignments of the page's variables to file descriptor 3; on the screen only what is for the user.
KIND is the page's name without its ending.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from importlib import import_module

from recipes.command_line import run_main
from recipes.plan.plan import Plan

EXIT = "exit 0\n"  # nothing to train


def planner(kind: str) -> Callable[[str, list[str]], Plan]:
    """The function that plans a kind of training; imports only what it needs."""
    if kind.startswith("pretrain_"):
        pretraining = import_module("recipes.plan.pretraining")
        corpus = pretraining.TEXT if kind == "pretrain_text" else pretraining.SMILES
        return lambda program, words: pretraining.plan(corpus, program, words)
    return import_module(f"recipes.plan.{kind.removeprefix('finetune_')}").plan


def assignments(kind: str, words: list[str]) -> str:
    """Shell code for the page of a kind of training."""
    program = f"{kind}.sh"
    plan = planner(kind)(program, words)
    for note in plan.notes:
        print(note)
    if plan.finished:
        print(plan.finished)
        return EXIT
    return plan.shell([program, *words])


def main() -> int:
    try:
        code = assignments(sys.argv[1], sys.argv[2:])
    except SystemExit as end:  # of argparse
        if end.code:
            raise
        code = EXIT  # after --help
    with os.fdopen(3, "w") as page:
        page.write(code)
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
