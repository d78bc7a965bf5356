"""What the scripts that binarise a corpus share: arguments, and the line on what was rejected."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from recipes.corpora.blocks import PreparationError


def add_corpus_arguments(parser: argparse.ArgumentParser, valid_share: float) -> None:
    """--valid-share (by default the one given), --workers and --overwrite."""
    add = parser.add_argument
    add(
        "--valid-share",
        type=float,
        metavar="S",
        help=f"without --valid: the share of --train to validate on, by hash (default: {valid_share})",
    )
    add("--workers", type=int, default=usable_cores(), metavar="N", help="default: %(default)s")
    add("--overwrite", action="store_true", help="begin anew where the folder holds something else")


def usable_cores() -> int:
    """Those that this process may use, where the system tells (Linux); else all."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_corpus_arguments(args: argparse.Namespace, valid_share: float) -> None:
    """Puts the default into ``args.valid_share``: 0 with --valid, else the one given.

    Raises:
        PreparationError: for a share or a number of workers that cannot be, or a share besides --valid.
    """
    if args.valid and args.valid_share is not None:
        raise PreparationError("give --valid or --valid-share, not both")
    if args.valid_share is None:
        args.valid_share = 0.0 if args.valid else valid_share
    elif not 0 < args.valid_share < 1:
        raise PreparationError(
            f"--valid-share {args.valid_share}: give a share between 0 and 1, such as {valid_share}"
        )
    if args.workers < 1:
        raise PreparationError(f"--workers {args.workers}: give 1 or more")


def show_rejected(rejected: dict[str, int], output: Path) -> None:
    total = sum(rejected.values())
    reasons = ", ".join(f"{count:,} x {reason}" for reason, count in rejected.items())
    print(f"rejected: {total:,}" + (f" ({reasons}; see {output / 'rejected.tsv'})" if total else ""))
