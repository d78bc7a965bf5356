"""Command-line arguments that the scripts which prepare data share."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from lib.command_line import UserError, positive, share
from lib.corpora.bpe import TextEncoder
from lib.dictionaries import dictionary_file

from fs_plugins.data.text_codecs import read_bpe


def add_corpus_arguments(parser: argparse.ArgumentParser, what: str, valid_share: float) -> None:
    """--train, --valid, --valid-share and --workers.

    Args:
        what: is trained on, for the help.
    """
    # those that this process may use, if the system tells (Linux)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    add = parser.add_argument
    add("--train", type=Path, nargs="+", required=True, metavar="PATH", help=f"{what} to train on")
    add = parser.add_mutually_exclusive_group().add_argument
    add("--valid", type=Path, nargs="+", default=[], metavar="PATH", help=f"{what} to validate on")
    about = "without --valid: the share of --train to validate on, by hash (default: %(default)s)"
    add("--valid-share", type=share, default=valid_share, metavar="S", help=about)
    add = parser.add_argument
    add("--workers", type=positive, default=cores, metavar="N", help="(default: %(default)s)")


def show_result(result: dict, output: Path, what: str) -> None:
    """What a preparation came to.

    Args:
        result: of ``binarise``.
        what: a sentence is.
    """
    for split in ("train", "valid"):
        print(f"{split}: {result[split]['sentences']:,} {what}, {result[split]['tokens']:,} tokens")
    total = sum(result["rejected"].values())
    reasons = ", ".join(f"{count:,} x {reason}" for reason, count in result["rejected"].items())
    print(f"rejected: {total:,}" + (f" ({reasons}; see {output / 'rejected.tsv'})" if total else ""))


def add_encoder_arguments(parser: argparse.ArgumentParser) -> None:
    """The BPE and the dictionary of a pre-training, for text to fine-tune on; see ``encoder_of``."""
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--data", type=Path, metavar="DIR", help="the pre-training's data: its dict.txt and BPE")
    add("--dictionary", type=Path, metavar="FILE", help="the pre-training's dict.txt, instead of --data")
    add = parser.add_argument
    add("--bpe", nargs="+", metavar="FILE", help="encoder.json vocab.bpe, tokenizer.json, or their folder")
    add("--allow-unknown", action="store_true", help="replace tokens missing from the dictionary by <unk>")


def encoder_of(args: argparse.Namespace) -> TextEncoder:
    """The encoder that the arguments ask for.

    Raises:
        UserError: if they say too little or too much, or do not fit together.
    """
    if (args.bpe is None) != (args.dictionary is None):
        raise UserError("--dictionary needs --bpe, the BPE that it was made with; --data has both")
    bpe, dictionary = read_bpe(*(args.bpe or [args.data])), dictionary_file(args.dictionary or args.data)
    return TextEncoder(bpe, dictionary, args.allow_unknown)
