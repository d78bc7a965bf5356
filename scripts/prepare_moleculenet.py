"""Prepares molecules with labels for fine-tuning: checks, splits and binarises MoleculeNet, or your own.

    python scripts/prepare_moleculenet.py bbbp BBBP.csv data-bin/bbbp --dictionary data-bin/smiles
    python scripts/prepare_moleculenet.py bbbp unimol/bbbp data-bin/bbbp --dictionary data-bin/smiles
    python scripts/prepare_moleculenet.py mine my.csv data-bin/mine --dictionary data-bin/smiles \\
        --smiles-column SMILES --label-columns logS --kind regression

The source is a CSV file, plain or .gz, or a folder with Uni-Mol's train.lmdb, valid.lmdb and test.lmdb. The
columns of DeepChem's files are known for the sets named below (DATASET). Molecules that cannot be read are
skipped and listed, with their lines, in report.tsv; tokens missing from the dictionary become <unk> and are
listed too. See docs/finetune.md.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from pathlib import Path

import numpy as np
import rdkit
from lib.checkpoints import check_dictionary, read_checkpoint
from lib.command_line import UserError, argument_parser, script
from lib.dictionaries import dictionary_file, read_dictionary
from lib.files import sha256, write_json
from lib.moleculenet import encoding, reading
from lib.moleculenet.datasets import KNOWN, OTHER, KnownSet
from lib.preparing import new_folder

from fs_plugins.data import molecule_splits
from fs_plugins.data.property_info import FILE, VERSION, PropertyInfo, fingerprint, label_scale


def parser() -> argparse.ArgumentParser:
    result = argument_parser(__doc__)
    add = result.add_argument
    add("dataset", help=f"{', '.join(KNOWN)}, or a name of your own")
    add("source", type=Path, help="a CSV file, or a folder with train.lmdb, valid.lmdb and test.lmdb")
    add("output", type=Path, help="folder to write")
    add("--dictionary", type=Path, required=True, metavar="FILE", help="dict.txt or its folder")
    add("--checkpoint", type=Path, metavar="FILE", help="check that it has this dictionary")
    add("--smiles-column", metavar="NAME", help="(default: smiles, or that of the known set)")
    add("--label-columns", nargs="+", metavar="NAME", help="(default: all others, or those of the known set)")
    add("--kind", choices=("classification", "regression"), default="classification")
    add("--split", choices=("scaffold", "random", "given"), help="(default: scaffold; LMDBs: given)")
    add("--split-column", metavar="NAME", help="for --split given: the column with train, valid or test")
    add("--seed", type=int, default=1, help="of --split random (default: 1)")
    smiles = "RDKit's canonical SMILES (default), or the strings as they are; use that of the pre-training"
    add("--smiles", choices=("canonical", "as-given"), default="canonical", help=smiles)
    valence = "atoms with too many bonds (default: check; tox21: allow)"
    add("--valence", choices=("check", "allow"), help=valence)
    unknown = "largest share of molecules with tokens missing from the dictionary (default: 0.05)"
    add("--max-unknown", type=float, default=0.05, metavar="P", help=unknown)
    return result


def read_source(args: argparse.Namespace, known: KnownSet) -> tuple[list[str], list[reading.Molecule]]:
    """The properties and the molecules of the source."""
    names, classification = args.label_columns or known.labels, args.kind == "classification"
    if args.source.is_dir():
        return reading.read_lmdbs(args.source, names, classification)
    column = args.smiles_column or known.smiles
    try:
        return reading.read_csv(args.source, column, names, known.ignored, classification, args.split_column)
    except UserError as error:
        if known is not OTHER or args.label_columns:
            raise
        raise UserError(
            f"{error} ('{args.dataset}' is not one of {', '.join(KNOWN)}, whose columns are known: "
            "name the columns of the labels with --label-columns)"
        ) from error


def split_molecules(args: argparse.Namespace, molecules: list[reading.Molecule]) -> encoding.Splits:
    if args.split == "scaffold":
        split = molecule_splits.scaffold_split([molecule.scaffold for molecule in molecules])
    elif args.split == "random":
        split = molecule_splits.random_split(len(molecules), args.seed)
    else:
        split = molecule_splits.given_split([molecule.split for molecule in molecules])
    return {name: [molecules[i] for i in getattr(split, name)] for name in molecule_splits.PARTS}


def prepare(args: argparse.Namespace) -> dict:
    """Writes the folder; returns its description.

    Raises:
        UserError: for input that cannot be used, or a checkpoint that does not fit it.
    """
    known, lmdbs = KNOWN.get(args.dataset, OTHER), args.source.is_dir()
    args.split = args.split or ("given" if lmdbs else "scaffold")
    if lmdbs and args.split != "given":
        raise UserError("LMDBs are split already: leave out --split, or use --split given")
    if not lmdbs and (args.split == "given") != (args.split_column is not None):
        raise UserError("--split given and --split-column NAME go together")
    allow = args.valence == "allow" if args.valence else known.allow_valence
    canonical = args.smiles == "canonical"
    with new_folder(args.output) as folder:
        dictionary = read_dictionary(args.dictionary)
        names, molecules = read_source(args, known)
        unknown = encoding.encode(molecules, dictionary.symbols, canonical, allow, args.max_unknown)
        splits = split_molecules(args, [molecule for molecule in molecules if not molecule.fault])
        labels = {
            split: np.array([one.labels for one in found], np.float32) for split, found in splits.items()
        }
        remarks = encoding.remarks_on(labels, names, args.kind == "classification")
        remarks += encoding.repeated_molecules(splits)
        mean, std = label_scale(labels["train"], args.kind)
        info = PropertyInfo(args.kind, tuple(names), mean, std, canonical, allow)
        sizes = encoding.write_folder(folder, molecules, splits, labels, dictionary)
        if args.checkpoint is not None:
            remarks += check_checkpoint(args, max(size["longest"] for size in sizes.values()))
        description = {
            "version": VERSION,
            "dataset": args.dataset,
            **info.to_dict(),
            "split": {"kind": args.split, "seed": args.seed if args.split == "random" else None},
            "sizes": sizes,
            "skipped": sum(bool(molecule.fault) for molecule in molecules),
            "unknown_tokens": dict(unknown.most_common()),
            "remarks": remarks,
            "dictionary": fingerprint(dictionary.symbols),
            "source": args.source.name,
            "source_sha256": {
                path.name: sha256(path)
                for path in (sorted(args.source.glob("*.lmdb")) if lmdbs else [args.source])
            },
            "rdkit": rdkit.__version__,
        }
        write_json(folder / FILE, description)
    return description


def check_checkpoint(args: argparse.Namespace, longest: int) -> list[str]:
    """What to report of the molecules' length; raises UserError if the checkpoint has another dictionary."""
    pretrained = read_checkpoint(args.checkpoint)
    hint = "use the dict.txt of its pre-training"
    check_dictionary(pretrained, dictionary_file(args.dictionary), hint)
    if longest <= pretrained.max_positions:
        return []
    return [
        f"the longest molecule has {longest} tokens, the checkpoint {pretrained.max_positions} positions: "
        "fine-tuning truncates longer molecules"
    ]


def describe(args: argparse.Namespace, description: dict) -> str:
    sizes = [description["sizes"][split] for split in molecule_splits.PARTS]
    counts, names = "/".join(f"{size['molecules']:,}" for size in sizes), description["names"]
    lines = [
        f"{args.output}: {len(names)} properties ({description['kind']}), {counts} molecules "
        f"(train/valid/test, {args.split} split), at most {max(size['longest'] for size in sizes)} tokens",
        f"  properties: {textwrap.shorten(', '.join(names), 100, placeholder=', ...')}",
    ]
    if description["skipped"]:
        lines.append(f"  {description['skipped']} rows skipped: see {args.output / 'report.tsv'}")
    if unknown := description["unknown_tokens"]:
        named = ", ".join(f"{token} ({n})" for token, n in list(unknown.items())[:10])
        lines.append(f"  {len(unknown)} unknown tokens became <unk>: {named}, see report.tsv")
    return "\n".join(lines + [f"  {remark}" for remark in description["remarks"]])


@script
def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    print(describe(args, prepare(args)))


if __name__ == "__main__":
    sys.exit(main())
