"""Prepares molecules for pretrain_smiles.sh: checks, tokenises, splits and binarises them for fairseq.

    python scripts/prepare_smiles.py data-bin/smiles --train zinc.txt.gz chembl.csv --valid test.smi
    python scripts/prepare_smiles.py data-bin/unimol --train train.lmdb --valid valid.lmdb --workers 16

Reads .txt (one SMILES per line), .smi and .smiles (SMILES, then a name), .csv (--smiles-column), these also
as .gz, and Uni-Mol's .lmdb files. Molecules that cannot be used are listed in rejected.tsv with file, line
and reason. If interrupted, rerun the same command to resume. The result does not depend on --workers.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

import rdkit
from lib.command_line import UserError, argument_parser, positive, script
from lib.corpora.arguments import add_corpus_arguments, show_result
from lib.corpora.binarise import binarise, states_of
from lib.corpora.molecules import DEFAULT_COLUMN, records_in
from lib.corpora.smiles import SmilesEncoder
from lib.dictionaries import dictionary_file, read_dictionary
from lib.files import sha256


def parser() -> argparse.ArgumentParser:
    result = argument_parser(__doc__)
    add = result.add_argument
    add("output", type=Path, help="folder to write: train, valid, dict.txt, rejected.tsv")
    add_corpus_arguments(result, "molecules", valid_share=0.01)
    add("--smiles-column", default=DEFAULT_COLUMN, metavar="NAME", help="of .csv files (default: smiles)")
    smiles = "RDKit's canonical SMILES (default), as fine-tuning uses, or the strings as they are"
    add("--smiles", choices=("canonical", "as-given"), default="canonical", help=smiles)
    add("--dictionary", type=Path, metavar="FILE", help="dict.txt to use; reject other tokens")
    add("--max-tokens", type=positive, metavar="N", help="reject longer molecules, counting <s> and </s>")
    return result


@script
def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    if args.max_tokens is not None and args.max_tokens < 3:
        raise UserError(f"--max-tokens {args.max_tokens}: <s>, </s> and one token of a molecule need 3")
    files, valid_share = [*args.train, *args.valid], 0.0 if args.valid else args.valid_share
    for path in files:  # what is wrong with a file as a whole is found before any work
        if next(records_in(path, args.smiles_column), None) is None:
            raise UserError(f"{path} is empty")
    inputs = states_of({"--train": args.train, "--valid": args.valid})
    dictionary = ids = None
    if args.dictionary is not None:
        dictionary, ids = dictionary_file(args.dictionary), read_dictionary(args.dictionary).indices
        inputs["--dictionary"] = sha256(dictionary)
    settings = {name: getattr(args, name) for name in ("smiles_column", "smiles", "max_tokens")}
    canonical = args.smiles == "canonical"
    result = binarise(
        args.output,
        {"valid_share": valid_share, **settings, "rdkit": rdkit.__version__},
        inputs,
        files,
        partial(records_in, column=args.smiles_column),
        SmilesEncoder(frozenset(args.valid), valid_share, canonical, ids, args.max_tokens),
        dictionary=dictionary,
        workers=args.workers,
        overwrite=args.overwrite,
    )
    show_result(result, args.output, "molecules")
    print(f"dictionary: {result['symbols']:,} symbols")


if __name__ == "__main__":
    sys.exit(main())
