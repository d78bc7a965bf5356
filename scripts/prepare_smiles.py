"""Molecules to what pretrain_smiles.sh trains on: checked, tokenised, split and binarised for fairseq.

    python scripts/prepare_smiles.py data-bin/smiles --train zinc.txt.gz chembl.csv --valid test.smi
    python scripts/prepare_smiles.py data-bin/unimol --train train.lmdb --valid valid.lmdb --workers 16

reads .txt (a SMILES a line), .smi (SMILES, then a name), .csv (--column), these also as .gz, and Uni-Mol's
.lmdb files. Molecules that cannot be used cost no others: they are listed in rejected.tsv with file, line and
reason. A run that was interrupted, in whatever way, goes on when the same command is given again. The result
does not depend on --workers.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from pathlib import Path

from recipes.corpora.binarise import binarise, input_state
from recipes.corpora.blocks import PreparationError
from recipes.corpora.corpus_arguments import add_corpus_arguments, check_corpus_arguments, show_rejected
from recipes.corpora.readers import BLOCK_BYTES, BLOCK_RECORDS, DEFAULT_COLUMN, blocks_of, check_input

VALID_SHARE = 0.01


def parse_arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("output", type=Path, help="the folder to make: train, valid, dict.txt, rejected.tsv")
    add("--train", type=Path, nargs="+", required=True, metavar="FILE", help="molecules to train on")
    add("--valid", type=Path, nargs="+", default=[], metavar="FILE", help="molecules to validate on")
    add("--column", metavar="NAME", help=f"the column of .csv files (default: {DEFAULT_COLUMN})")
    add("--canonical", action="store_true", help="write each molecule as RDKit writes it")
    add("--dictionary", type=Path, metavar="FILE", help="an existing dict.txt; other tokens are rejected")
    add("--max-tokens", type=int, metavar="N", help="reject longer molecules; <s> and </s> count too")
    add_corpus_arguments(parser, VALID_SHARE)
    return parser.parse_args(arguments)


def check_arguments(args: argparse.Namespace) -> None:
    check_corpus_arguments(args, VALID_SHARE)
    if args.max_tokens is not None and args.max_tokens < 3:
        raise PreparationError(
            f"--max-tokens {args.max_tokens}: <s>, </s> and one token of a molecule need 3"
        )
    resolved = [path.resolve() for path in (*args.train, *args.valid)]
    for path in resolved:
        if resolved.count(path) > 1:
            raise PreparationError(f"{path} is given more than once")
    for path in (*args.train, *args.valid):
        check_input(path, args.column)


def read_ids(path: Path) -> dict[str, int]:
    """{symbol: id} of a dictionary of fairseq's."""
    from fairseq.data import Dictionary

    if not path.is_file():
        raise PreparationError(f"--dictionary {path}: there is no such file")
    try:
        dictionary = Dictionary.load(str(path))
    except (ValueError, RuntimeError) as error:
        raise PreparationError(f"--dictionary {path} is no dict.txt of fairseq's: {error}") from error
    return dictionary.indices


def settings_of(args: argparse.Namespace) -> dict:
    """All that the result depends on."""
    import rdkit

    digest = args.dictionary and hashlib.sha256(args.dictionary.read_bytes()).hexdigest()
    return {
        "program": "prepare_smiles",
        "train": input_state(args.train),
        "valid": input_state(args.valid),
        "valid_share": args.valid_share,
        "column": args.column,
        "canonical": args.canonical,
        "dictionary": digest,
        "max_tokens": args.max_tokens,
        "block": [BLOCK_RECORDS, BLOCK_BYTES],
        "rdkit": rdkit.__version__,
    }


def show(output: Path, result: dict) -> None:
    for split in ("train", "valid"):
        print(f"{split}: {result[split]['sentences']:,} molecules, {result[split]['tokens']:,} tokens")
    print(f"dictionary: {result['symbols']:,} symbols")
    show_rejected(result["rejected"], output)


def main(arguments: list[str] | None = None) -> None:
    args = parse_arguments(arguments)
    try:
        check_arguments(args)
        ids = read_ids(args.dictionary) if args.dictionary else None
        from recipes.corpora.smiles import SmilesEncoder

        encode = SmilesEncoder(
            valid_sources=frozenset(map(str, args.valid)),
            valid_share=args.valid_share,
            canonical=args.canonical,
            ids=ids,
            max_tokens=args.max_tokens,
        )
        files = [*args.train, *args.valid]
        result = binarise(
            args.output,
            settings_of(args),
            lambda: (block for path in files for block in blocks_of(path, args.column)),
            encode,
            dictionary=args.dictionary,
            workers=args.workers,
            total_weight=sum(size for size, _ in input_state(files).values()),
            overwrite=args.overwrite,
        )
        show(args.output, result)
    except PreparationError as error:
        sys.exit(f"error: {error}")
    except KeyboardInterrupt:
        sys.exit("\ninterrupted: the same command goes on where it stood")


if __name__ == "__main__":
    main()
