"""Prepares molecules with labels for fine-tuning: checks, splits and binarises MoleculeNet, or your own.

    python scripts/prepare_moleculenet.py bbbp BBBP.csv data-bin/bbbp --dictionary data-bin/smiles
    python scripts/prepare_moleculenet.py bbbp unimol/bbbp data-bin/bbbp --dictionary data-bin/smiles
    python scripts/prepare_moleculenet.py mine my.csv data-bin/mine --dictionary data-bin/smiles \\
        --smiles-column SMILES --label-columns logS --kind regression

The source is a table (CSV, TSV, plain or .gz, or Parquet) or a folder with Uni-Mol's train.lmdb, valid.lmdb
and test.lmdb. The columns of DeepChem's files are known for the sets named below (DATASET). An empty cell is
a missing label. Molecules that cannot be read are skipped and listed, with their lines, in report.tsv; tokens
missing from the dictionary become <unk> and are listed too. See docs/finetune.md. OUTPUT has

molecules.json        properties (names, kind, mean and std of the training labels), how the SMILES were read,
                      the split, the sizes, the dictionary's fingerprint, the source and its SHA-256
dict.txt              the dictionary of the pre-training
SPLIT.bin, SPLIT.idx  tokens and </s> of each molecule, in fairseq's format; SPLIT is train, valid or test
SPLIT.labels.npy      float64 [molecules, properties], NaN for a missing label
SPLIT.tsv             line of the source and SMILES as tokenised, one molecule per line, in the same order
report.tsv            molecules that were skipped, or kept with a remark: line, split, status, reason, SMILES
"""

import argparse
from collections import Counter
from collections.abc import Iterable
from itertools import compress, starmap
from pathlib import Path
from textwrap import shorten

import lib  # noqa: F401  (finds the environment)
import numpy as np
import rdkit
from lib import splits
from lib.command_line import UserError, argument_parser, counted, proportion, script, whole
from lib.data.datasets import write_dataset
from lib.data.frames import TableFormat, add_table_arguments
from lib.files import read_json, sha256, tsv_line, write_lines
from lib.labelled_molecules import Molecule, far_labels, read_labels, read_lmdbs, read_table
from lib.moleculenet import KNOWN, KnownSet

from fs_plugins.data.molecules import canonical_smiles, murcko_scaffold, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.text_codecs import smiles_form
from fs_plugins.data.vocabulary import Vocabulary, read_dictionary
from fs_plugins.files import atomic, new_folder, write_json
from fs_plugins.finetuning.moleculenet.data import MOLECULES_FILE, label_scale
from fs_plugins.finetuning.outputs import KINDS, PropertyInfo

Splits = dict[str, list[Molecule]]  # "train", "valid", "test"
FEW = 5  # labels of a class, below which metrics say little


def parser() -> argparse.ArgumentParser:
    result = argument_parser(__doc__)
    add = result.add_argument
    add("dataset", help=f"{', '.join(KNOWN)}, or a name of your own")
    add("source", type=Path, help="a table, or a folder with train.lmdb, valid.lmdb and test.lmdb")
    add("output", type=Path, help="folder to write")
    add("--dictionary", type=Path, required=True, metavar="FILE", help="dict.txt or its folder")
    add_table_arguments(result)
    labels = "(default: all other columns, or those of the known set)"
    add("--label-columns", nargs="+", metavar="NAME", default=(), help=labels)
    broken = "leave cells out that are not labels, and rows without a label, and list them in report.tsv"
    missing = "cells that stand for a missing label, besides empty ones, such as NA ND"
    add("--missing", nargs="+", default=(), metavar="CELL", help=missing)
    add("--skip-broken", action="store_true", help=broken)
    kinds = "each property is 0 or 1 (default), or a number"
    add("--kind", choices=tuple(KINDS), default="classification", help=kinds)
    group = result.add_mutually_exclusive_group()
    group.add_argument("--split", choices=("scaffold", "random"), help="8:1:1 (default: scaffold)")
    column = "the column with train, valid or test; test alone for a set to be tested on"
    group.add_argument("--split-column", metavar="NAME", help=column)
    add("--seed", type=whole(0, 2**32 - 1), default=1, help="of what is drawn (default: 1)")
    smiles = "RDKit's canonical SMILES (default), or the strings as they are; use that of the pre-training"
    add("--smiles", choices=("canonical", "as-given"), default="canonical", help=smiles)
    valence = "atoms with too many bonds (default: check; tox21: allow)"
    add("--valence", choices=("check", "allow"), help=valence)
    unknown = "largest share of molecules with tokens missing from the dictionary (default: 0.05)"
    add("--max-unknown", type=proportion, default=0.05, metavar="P", help=unknown)
    return result


def encode(molecules: list[Molecule], args: argparse.Namespace, allow_valence: bool, known: set) -> Counter:
    """Reads the SMILES of all molecules; returns which tokens are not ``known``, and how often they occur.
    Molecules with such tokens are kept and reported. Raises UserError if more than --max-unknown have some,
    or most molecules cannot be used."""
    unknown_tokens, affected, readable = Counter(), 0, [row for row in molecules if not row.fault]
    for row in readable:
        try:
            molecule = parse_molecule(row.smiles, allow_valence)
            row.canonical = canonical_smiles(molecule, row.smiles)
            row.written = row.canonical if args.smiles == "canonical" else row.smiles
            row.tokens = tokenize(row.written)
            if args.split == "scaffold":  # table 9 has DeepChem's splits, of SMILES as they are spelled
                row.scaffold = murcko_scaffold(molecule, as_spelled=args.dataset in KNOWN)
        except ValueError as error:
            row.fault = str(error)
            continue
        if allow_valence:
            try:
                parse_molecule(row.smiles)
            except ValueError as error:
                row.remarks.append(str(error))
        if unknown := [token for token in row.tokens if token not in known]:
            affected += 1
            unknown_tokens.update(unknown)
            row.remarks.append(f"unknown tokens {' '.join(sorted({*unknown}))}")
    if affected > args.max_unknown * len(readable):
        named = ", ".join(f"{token} ({count})" for token, count in unknown_tokens.most_common(15))
        raise UserError(
            f"{affected} of {counted(len(readable), 'molecule')} have tokens missing from the dictionary: "
            f"{named}. Is it the one of the pre-training? If so, and you accept this, raise --max-unknown"
        )
    faulty = [row for row in molecules if row.fault]
    if 2 * len(faulty) > len(molecules) or not molecules:
        first = f": line {faulty[0].line} is {faulty[0].smiles[:60]!r}, {faulty[0].fault}" if faulty else ""
        raise UserError(
            f"{len(faulty):,} of {counted(len(molecules), 'row')} cannot be used{first}: choose other columns"
        )
    return unknown_tokens


def split(molecules: list[Molecule], args: argparse.Namespace) -> tuple[Splits, int | None]:
    """Returns the parts of the molecules that can be used, and the seed that they were drawn by, if they
    were. Raises ValueError if a part comes out empty, or for an unknown one."""
    kept, drawn = [row for row in molecules if not row.fault], args.split == "random"
    if args.split == "scaffold":
        rows_of = splits.scaffold_split([row.scaffold for row in kept])
    elif drawn:
        rows_of = splits.random_split(len(kept), args.seed)
    else:
        places = [f"line {row.line}" for row in kept]
        rows_of, drawn = splits.given_split([row.split for row in kept], args.seed, places)
    return {part: [kept[i] for i in rows] for part, rows in rows_of.items()}, args.seed if drawn else None


def labels_remarks(labels: dict[str, np.ndarray], names: list[str], classification: bool) -> list[str]:
    """Returns what to report of properties with few labels of a class, or without labels that differ, for
    each split. Raises UserError if no property can be learned, or the best epoch not be chosen."""
    remarks = []
    for part, values in labels.items():
        same = np.isnan(values).all(0) | (np.fmin.reduce(values) == np.fmax.reduce(values))
        what, few, shown = "labels that differ", same, names
        # by a single value the best epoch of a regression can be chosen
        fatal = same if classification or part == "train" else np.isnan(values).all(0)
        if classification:
            positive, negative = ((values == label).sum(0) for label in (1, 0))
            what, few = "labels of both classes", np.minimum(positive, negative) < FEW
            counts = zip(names, positive, negative, strict=True)
            shown = [f"{name} ({p} positive, {n} negative)" for name, p, n in counts]
        if fatal.all() and part != "test":
            raise UserError(f"no property has {what} in {part}: choose other labels, or split differently")
        if few.any():
            about = f"fewer than {FEW} labels of a class, too few for a reliable metric"
            about = about if classification else f"no {what}"
            remarks.append(f"{part}: {about}: {listed(compress(shown, few))}")
    return remarks


def write_folder(folder: Path, molecules: list[Molecule], parts: Splits, labels: dict, dictionary) -> dict:
    """Writes all but molecules.json, of all ``molecules`` of the source. Returns for each part how many
    ``molecules``, ``longest``, the most tokens of one with <s> and </s>, and of each property how many
    ``labels`` and how many of them are ``positives``, that is 1."""
    sizes = {}
    for part, rows in parts.items():
        sentences = [[*map(dictionary.index, row.tokens), dictionary.eos()] for row in rows]
        write_dataset(folder / part, sentences, len(dictionary) + 1)
        with atomic(folder / f"{part}.labels.npy", "wb") as file:
            np.save(file, labels[part])
        table = [("line", "smiles"), *((row.line, row.written) for row in rows)]
        write_lines(folder / f"{part}.tsv", starmap(tsv_line, table))
        sizes[part] = {"molecules": len(rows), "longest": 1 + max(map(len, sentences))}
        sizes[part]["labels"] = (~np.isnan(labels[part])).sum(0).tolist()
        sizes[part]["positives"] = (labels[part] == 1).sum(0).tolist()
    report = [("line", "split", "status", "reason", "smiles")]
    for row in sorted(molecules, key=lambda row: row.line):
        status, reasons = ("skipped", [row.fault]) if row.fault else ("kept", row.remarks)
        report += [(row.line, row.split, status, reason, row.smiles) for reason in reasons]
    write_lines(folder / "report.tsv", starmap(tsv_line, report))
    with atomic(folder / "dict.txt") as file:
        dictionary.save(file)
    return sizes


def listed(names: Iterable[str]) -> str:
    """Returns some of the names, for messages."""
    return shorten(", ".join(names), 200, placeholder=" ...")


def smiles_of(dictionary: Path) -> str | None:
    """Returns the --smiles of the pre-training whose dictionary it is, if its folder says so."""
    folder = dictionary if dictionary.is_dir() else dictionary.parent
    config = read_json(folder / "config.json") or {}  # exists in a folder for transformers
    return (config.get("fairseq") or {}).get("smiles") or smiles_form(folder)


@script
def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    known, lmdbs = KNOWN.get(args.dataset, KnownSet()), args.source.is_dir()
    if not (args.split_column or lmdbs):
        args.split = args.split or "scaffold"
    elif args.split:
        raise UserError(f"--split {args.split}: the files of {args.source} are a split already, leave it out")
    allow_valence = args.valence == "allow" if args.valence else known.allow_valence
    with new_folder(args.output) as folder:
        dictionary, names = read_dictionary(args.dictionary), args.label_columns or known.labels
        if lmdbs:
            names, molecules, remarks = read_lmdbs(args.source, names, args.kind)
        else:
            form = TableFormat.of(args, known.smiles)
            names, molecules, remarks = read_table(args.source, form, names, known.ignored, args.split_column)
        broken = args.missing, args.skip_broken
        remarks += read_labels(args.source, names, molecules, args.kind, *broken)
        unknown = encode(molecules, args, allow_valence, {*dictionary.symbols})
        if args.kind == "regression":
            remarks += far_labels(names, molecules)
        parts, seed = split(molecules, args)
        if (read := smiles_of(args.dictionary)) not in (None, args.smiles):
            remarks.append(f"the pre-training read SMILES {read}, not {args.smiles}: give --smiles {read}")
        if seed is not None and not args.split:
            drawn = counted(len(parts["valid"]), "molecule")
            remarks.append(f"valid: {drawn} drawn from train, as none were given")
        labels = {part: np.array([row.labels for row in rows], np.float64) for part, rows in parts.items()}
        remarks += labels_remarks(labels, names, args.kind == "classification")
        found = {part: {row.canonical for row in rows} for part, rows in parts.items()}
        if both := len(found.get("train", set()) & found.get("test", set())):
            remarks.append(f"in both train and test: {counted(both, 'molecule')}, so test metrics flatter")
        if skipped := sum(bool(row.fault) for row in molecules):
            remarks.append(f"{counted(skipped, 'row')} skipped: see report.tsv")
        if unknown:
            named = ", ".join(f"{token} ({n})" for token, n in unknown.most_common(10))
            remarks.append(f"{counted(len(unknown), 'unknown token')} became <unk>: {named}, see report.tsv")
        mean, std = label_scale(next(iter(labels.values())), args.kind)  # train's, or a test set's alone
        info = PropertyInfo(args.kind, tuple(names), mean, std, args.smiles == "canonical", allow_valence)
        files = sorted(args.source.glob("*.lmdb")) if lmdbs else [args.source]
        description = {
            "dataset": args.dataset,
            **info.to_dict(),
            "split": {"kind": args.split or "given", "seed": seed},
            "sizes": write_folder(folder, molecules, parts, labels, dictionary),
            "skipped": skipped,
            "unknown_tokens": dict(unknown.most_common()),
            "remarks": remarks,
            "dictionary": Vocabulary.of(dictionary.symbols, args.dictionary).identity,
            "source": args.source.name,
            "source_sha256": {one.name: sha256(one / "data.mdb" if one.is_dir() else one) for one in files},
            "rdkit": rdkit.__version__,
        }
        write_json(folder / MOLECULES_FILE, description)
    print(f"{args.output}: {args.kind}: {listed(names)}")
    for part, about in description["sizes"].items():
        molecules, counts = counted(about["molecules"], "molecule"), about["labels"]
        print(f"  {part} ({args.split or 'given'}): {molecules} of at most {about['longest']} tokens")
        if args.kind == "classification":
            counts = [f"{n:,} ({p:,} positive)" for n, p in zip(counts, about["positives"], strict=True)]
        print(f"    labels: {listed(f'{name} {n}' for name, n in zip(names, counts, strict=True))}")
    print(*(f"  {remark}\n" for remark in remarks), sep="", end="")
