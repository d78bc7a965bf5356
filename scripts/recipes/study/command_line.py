"""What the runners of grids (run_experiments.py, run_glue.py) have in common on the command line."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable

from recipes.study.folder import FolderError


def whole_numbers(text: str) -> tuple[int, ...]:
    """Of an argument such as 1,2,3."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"'{text}': give different whole numbers, such as 1,2,3")
    return numbers


def filters(text: str) -> dict[str, str]:
    """Of an argument such as k=4,p=0.15."""
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    if not all(parts.values()):
        raise argparse.ArgumentTypeError(f"'{text}': give fields and values, such as k=4,p=0.15")
    return parts


def add_running_arguments(parser: argparse.ArgumentParser, what: str) -> None:
    """--gpus, --jobs, --flags and --dry-run, of a grid whose runs are ``what``."""
    add = parser.add_argument
    add("--gpus", type=whole_numbers, metavar="0,1", help="one run at a time on each (default: the CPU)")
    add("--jobs", type=int, default=1, metavar="N", help="runs at a time on the CPU (default: 1)")
    # argparse takes a value that begins with - for another option
    more = f"more flags for every {what}; they win (a single one: --flags=--NAME)"
    add("--flags", default="", metavar="'...'", help=more)
    add("--dry-run", action="store_true", help="show the commands of the grid and what is done already")


def exit_status(run: Callable[[], int]) -> int:
    """Of a run: its own, 2 after an error that is the user's, 130 where it was interrupted or told to end."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run()
    except (ValueError, FolderError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted: the same command goes on where it stopped", file=sys.stderr)
        return 130
