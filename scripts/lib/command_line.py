"""What the scripts' command lines share: the error for a user, exit statuses, types of arguments."""

from __future__ import annotations

import argparse
import logging
import signal
import sys
from collections.abc import Callable

INTERRUPTED = "\ninterrupted: rerun the same command to resume"


class UserError(ValueError):
    """Something that the user has to mend; the message names the value and the way out."""


def run_main(run: Callable[[], int | None], interrupted: str = INTERRUPTED) -> int:
    """The exit status of a script: ``run``'s own, 2 after an error that is the user's, 130 if interrupted.

    SIGTERM counts as an interruption. What libraries log is shown from warnings on.
    """
    logging.basicConfig(level=logging.WARNING, force=True)  # fairseq lets every level through
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run() or 0
    except (ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130


def argument_parser(doc: str, **more) -> argparse.ArgumentParser:
    """A parser whose help is a module's docstring, and which takes no abbreviated options."""
    form = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(description=doc, formatter_class=form, allow_abbrev=False, **more)


def positive(text: str) -> int:
    """Type of an argument: a whole number, 1 or more."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number, 1 or more")
    return int(text)


def count(text: str) -> int:
    """Type of an argument: a whole number, 0 or more."""
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number, 0 or more")
    return int(text)


def share(text: str) -> float:
    """Type of an argument: a number above 0 and below 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"'{text}': give a share between 0 and 1, such as 0.15")
    return value


def seeds(text: str) -> tuple[int, ...]:
    """Type of an argument: different whole numbers, such as 1,2,3."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        numbers = ()
    if not numbers or min(numbers) < 0 or len(set(numbers)) < len(numbers):
        raise argparse.ArgumentTypeError(f"'{text}': give different whole numbers, such as 1,2,3")
    return numbers
