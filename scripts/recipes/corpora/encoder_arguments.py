"""The arguments by which text to fine-tune on gets the BPE and the dictionary of the pre-training."""

from __future__ import annotations

import argparse
from pathlib import Path

from recipes.command_line import RecipeError
from recipes.corpora.bpe import Bpe, TextEncoder, find_files


def add_encoder_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--data",
        type=Path,
        metavar="DIR",
        help="the pre-training's data: dict.txt, and the BPE if there",
    )
    add("--dict", type=Path, metavar="FILE", help="the pre-training's dictionary, instead of --data")
    add(
        "--bpe",
        nargs="+",
        metavar="FILE",
        help="encoder.json vocab.bpe, tokenizer.json, or a folder of these",
    )
    add("--allow-unknown", action="store_true", help="tokens that the dictionary lacks become <unk>")


def encoder_of(args: argparse.Namespace) -> TextEncoder:
    """The encoder that the arguments ask for.

    Raises:
        RecipeError: if they say too little, too much, or what does not fit together.
    """
    if (args.data is None) == (args.dict is None):
        raise RecipeError("give the pre-training's dictionary: either --data DIR or --dict FILE")
    if args.bpe is None and args.data is None:
        raise RecipeError("--dict needs --bpe, the BPE that the dictionary was made with")
    if args.data is not None and args.bpe is not None:
        _check_same(args.data, args.bpe)
    place = args.bpe[0] if args.bpe and len(args.bpe) == 1 else args.bpe or args.data
    bpe = Bpe(place)
    return TextEncoder(bpe, args.dict or args.data / "dict.txt", args.allow_unknown)


def _check_same(data: Path, given: list[str]) -> None:
    """Raises RecipeError if --bpe is another BPE than the one that prepare_text.py left with the data."""
    try:
        kept = find_files(data)
    except RecipeError:
        return
    for ours, theirs in zip(kept, found := find_files(given[0] if len(given) == 1 else given), strict=False):
        if len(kept) != len(found) or ours.read_bytes() != theirs.read_bytes():
            raise RecipeError(
                f"--bpe {theirs} is not the BPE that {data} was made with, {ours}: leave --bpe out"
            )
