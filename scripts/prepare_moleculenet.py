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
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import compress, starmap
from pathlib import Path
from textwrap import shorten

import lib  # noqa: F401  (finds the environment)
import numpy as np
import rdkit
from lib import labelled_molecules as source
from lib import splits
from lib.command_line import UserError, argument_parser, count, counted, proportion, script, size, whole
from lib.data.datasets import write_dataset
from lib.data.lmdb_reader import lmdb_file
from lib.data.tables import TableFormat, add_table_arguments
from lib.files import read_json, sha256, tsv_line, write_lines
from lib.labelled_molecules import LabelFormat, Molecule
from lib.moleculenet import KNOWN, KnownSet

from fs_plugins.data.molecules import canonical_smiles, murcko_scaffold, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.text_codecs import smiles_form
from fs_plugins.data.vocabulary import Vocabulary, read_dictionary
from fs_plugins.files import atomic, new_folder, write_json
from fs_plugins.finetuning.moleculenet.data import MOLECULES_FILE, label_scale
from fs_plugins.finetuning.outputs import KINDS, PropertyInfo

Splits = dict[str, list[Molecule]]  # "train", "valid", "test"


def parser() -> argparse.ArgumentParser:
    result = argument_parser(__doc__)
    add = result.add_argument
    add("dataset", help=f"{', '.join(KNOWN)}, or a name of your own")
    add("source", type=Path, help="a table, or a folder with train.lmdb, valid.lmdb and test.lmdb")
    add("output", type=Path, help="folder to write")
    add("--dictionary", type=Path, required=True, metavar="FILE", help="dict.txt or its folder")
    add_table_arguments(result)
    add("--label-columns", nargs="+", metavar="NAME", help="(default: all others, or those of the known set)")
    kinds = "each property is 0 or 1 (default); a number; or the only one is 0, 1, 2, ..."
    broken = "leave cells out that are not labels, and rows without a label, and list them in report.tsv"
    missing = "cells that stand for a missing label, besides empty ones, such as NA ND"
    add("--decimal", choices=(".", ","), default=".", help="decimal mark of a table's labels (default: .)")
    add("--missing", nargs="+", default=(), metavar="CELL", help=missing)
    add("--skip-broken", action="store_true", help=broken)
    add("--kind", choices=tuple(KINDS), default="classification", help=kinds)
    log = "of a regression: learn and predict the decimal logarithms of the labels"
    add("--log-target", action="store_true", help=log)
    add("--split", choices=("scaffold", "random", "given"), help="(default: scaffold; LMDBs: given)")
    sizes = "shares of train, valid and test (default: 8 1 1); 9 1 0: no test set; 0 0 1: nothing but one"
    add("--split-sizes", nargs=3, type=size, metavar="X", help=sizes)
    column = "for --split given: the column with train, valid or test; or, with --fold, with folds"
    add("--split-column", metavar="NAME", help=column)
    add("--splits-file", type=Path, metavar="JSON", help="for --split given: numbers of rows, as chemprop's")
    fold = "which fold is the test set, the next one being valid; or which split of --splits-file"
    add("--fold", type=count, metavar="N", help=fold)
    add("--seed", type=whole(0, 2**32 - 1), help="of --split random (default: 1)")
    smiles = "RDKit's canonical SMILES (default), or the strings as they are; use that of the pre-training"
    add("--smiles", choices=("canonical", "as-given"), default="canonical", help=smiles)
    valence = "atoms with too many bonds (default: check; tox21: allow)"
    add("--valence", choices=("check", "allow"), help=valence)
    unknown = "largest share of molecules with tokens missing from the dictionary (default: 0.05)"
    add("--max-unknown", type=proportion, default=0.05, metavar="P", help=unknown)
    return result


def check(args: argparse.Namespace) -> None:
    """Sets the default of --split. Raises UserError for options that do not fit it."""
    lmdbs = args.source.is_dir()
    given = lmdbs + (args.split_column is not None) + (args.splits_file is not None)
    args.split = args.split or ("given" if given else "scaffold")
    if given != (args.split == "given"):
        raise UserError(
            "--split given needs --split-column NAME, --splits-file FILE or LMDBs, one of them, and no other "
            "split takes any"
        )
    if args.fold is not None and (lmdbs or not given):
        raise UserError("--fold is for --split-column and --splits-file: give one of them, or leave it out")
    if args.split_sizes and (given or (0 in args.split_sizes[:2] and args.split_sizes[:2] != [0, 0])):
        raise UserError("--split-sizes is for scaffold and random splits: with train and valid, or 0 0 1")
    if args.log_target and args.kind != "regression":
        raise UserError(f"--log-target is of --kind regression, not {args.kind}: classes have no logarithms")


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
    if not molecules or len(faulty) > len(molecules) / 2:
        first = f": line {faulty[0].line} is {faulty[0].smiles[:60]!r}, {faulty[0].fault}" if faulty else ""
        raise UserError(
            f"{len(faulty):,} of {counted(len(molecules), 'row')} cannot be used{first}: choose other columns"
        )
    return unknown_tokens


def split(molecules: list[Molecule], args: argparse.Namespace) -> tuple[Splits, int | None]:
    """Returns the parts of the molecules that can be used, and the seed that they were drawn by, if they
    were. Raises ValueError if a part comes out empty, for an unknown one, and for a --seed without effect."""
    kept, seed = [row for row in molecules if not row.fault], 1 if args.seed is None else args.seed
    sizes, drawn = args.split_sizes or splits.RATIO, args.split == "random"
    if args.split == "scaffold":
        rows_of = splits.scaffold_split([row.scaffold for row in kept], sizes)
    elif drawn:
        rows_of = splits.random_split(len(kept), seed, sizes)
    else:
        names = [row.split for row in kept]
        if args.fold is not None and args.split_column:
            names = splits.fold_parts(names, str(args.fold))
        rows_of, drawn = splits.given_split(names, seed, [f"line {row.line}" for row in kept])
    if args.seed is not None and not drawn:
        why = "follows from the molecules" if args.split == "scaffold" else "is given"
        raise UserError(
            f"--seed {seed} has no effect, as the split {why}: leave it out, or give --split random; the one "
            "of a training is finetune_moleculenet.sh's"
        )
    return {part: [kept[i] for i in rows] for part, rows in rows_of.items()}, seed if drawn else None


def useless_labels(labels: dict[str, np.ndarray], names: list[str], classification: bool) -> list[str]:
    """Returns what to report of properties without labels, or with labels of one class or value only, split
    by split. Raises UserError if that holds for all properties in train or valid, so that nothing could be
    learned, or no best epoch be chosen (by a single value it can)."""
    remarks = []
    what = "labels of both classes" if classification else "labels that differ"
    for part, values in labels.items():
        useless = ~varies(values)
        fatal = useless if classification or part == "train" else np.isnan(values).all(0)
        if fatal.all() and part != "test":
            raise UserError(f"no property has {what} in {part}: choose other labels, or split differently")
        if useless.any():
            of = counted(len(names), "property", "properties")
            remarks.append(
                f"{part}: {useless.sum()} of {of} without {what}: {listed(compress(names, useless))}"
            )
    return remarks


def repeated_molecules(parts: Splits) -> list[str]:
    """Returns what to report of molecules that occur more than once, compared by RDKit's canonical SMILES;
    those with different labels get a remark that names the others."""
    copies, differ, apart, tested = defaultdict(list), 0, 0, 0
    for part, rows in parts.items():
        for row in rows:
            copies[row.canonical].append((part, row))
    repeated = [found for found in copies.values() if len(found) > 1]
    for found in repeated:
        places, rows = {part for part, _ in found}, [row for _, row in found]
        apart += len(places) > 1
        tested += {"train", "test"} <= places
        if varies(np.array([row.labels for row in rows])).any():
            differ += 1
            for row in rows:
                others = ", ".join(f"{one.line} {one.split}".strip() for one in rows if one is not row)
                row.remarks.append(f"the same molecule as in line {others}, with another label")
    details = f", {differ:,} with different labels" if differ else ""
    details += f", {apart:,} in more than one split" if apart else ""
    details += f", {tested:,} in both train and test, so test metrics are too optimistic" if tested else ""
    what = "molecules that occur more than once (same canonical SMILES)"
    return [f"{what}: {len(repeated):,}{details}"] if repeated else []


def varies(labels: np.ndarray) -> np.ndarray:
    """Returns [properties] bool: whose labels [N, properties] differ, those aside that are missing."""
    return np.fmin.reduce(labels) < np.fmax.reduce(labels)


def write_folder(folder: Path, molecules: list[Molecule], parts: Splits, labels: dict, dictionary) -> dict:
    """Writes all but molecules.json, of all ``molecules`` of the source. Returns for each part how many
    ``molecules``, ``longest``, the most tokens of one with <s> and </s>, and ``labels`` of each property."""
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
    return shorten(", ".join(names), 80, placeholder=" ...")


def smiles_of(dictionary: Path) -> str | None:
    """Returns the --smiles of the pre-training whose dictionary it is, if its folder says so."""
    folder = dictionary if dictionary.is_dir() else dictionary.parent
    config = read_json(folder / "config.json") or {}  # exists in a folder for transformers
    return (config.get("fairseq") or {}).get("smiles") or smiles_form(folder)


@script
def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    check(args)
    known, lmdbs = KNOWN.get(args.dataset, KnownSet()), args.source.is_dir()
    allow_valence = args.valence == "allow" if args.valence else known.allow_valence
    with new_folder(args.output) as folder:
        dictionary = read_dictionary(args.dictionary)
        form = LabelFormat(args.kind, args.decimal, args.log_target, args.missing, args.skip_broken)
        names = args.label_columns or known.labels
        if lmdbs:
            names, molecules, remarks = source.read_lmdbs(args.source, names, form)
        else:
            table, others = TableFormat.of(args, known.smiles), (known.ignored, args.split_column)
            names, molecules, remarks = source.read_table(args.source, names, form, table, *others)
        names = [f"log10({name})" for name in names] if args.log_target else names
        if args.splits_file:
            splits.read_splits(args.splits_file, args.fold, molecules)
        unknown = encode(molecules, args, allow_valence, {*dictionary.symbols})
        parts, seed = split(molecules, args)
        if (read := smiles_of(args.dictionary)) not in (None, args.smiles):
            remarks.append(f"the pre-training read SMILES {read}, not {args.smiles}: give --smiles {read}")
        if seed is not None and args.split == "given":
            drawn = counted(len(parts["valid"]), "molecule")
            remarks.append(f"valid: {drawn} drawn from train, as none were given")
        labels = {part: np.array([row.labels for row in rows], np.float64) for part, rows in parts.items()}
        remarks += useless_labels(labels, names, args.kind == "classification") + repeated_molecules(parts)
        if skipped := sum(bool(row.fault) for row in molecules):
            remarks.append(f"{counted(skipped, 'row')} skipped: see report.tsv")
        if unknown:
            named = ", ".join(f"{token} ({n})" for token, n in unknown.most_common(10))
            remarks.append(f"{counted(len(unknown), 'unknown token')} became <unk>: {named}, see report.tsv")
        mean, std = label_scale(next(iter(labels.values())), args.kind)  # train's, or a test set's alone
        most = max(np.nanmax(part, initial=0) for part in labels.values())
        classes = tuple(f"{names[0]} {i}" for i in range(int(most) + 1)) if args.kind == "multiclass" else ()
        properties = tuple(names), mean, std, args.smiles == "canonical", allow_valence, classes
        files = sorted(args.source.glob("*.lmdb")) if lmdbs else [args.source]
        description = {
            "dataset": args.dataset,
            **PropertyInfo(args.kind, *properties).to_dict(),
            "split": {"kind": args.split, "seed": seed},
            "sizes": write_folder(folder, molecules, parts, labels, dictionary),
            "skipped": skipped,
            "unknown_tokens": dict(unknown.most_common()),
            "remarks": remarks,
            "dictionary": Vocabulary.of(dictionary.symbols, args.dictionary).identity,
            "source": args.source.name,
            "source_sha256": {path.name: sha256(lmdb_file(path)) for path in files},
            "rdkit": rdkit.__version__,
        }
        write_json(folder / MOLECULES_FILE, description)
    print(f"{args.output}: {args.kind}: {listed(names)}")
    for part, about in description["sizes"].items():
        molecules = counted(about["molecules"], "molecule")
        print(f"  {part} ({args.split}): {molecules} of at most {about['longest']} tokens")
        print(
            f"    labels: {listed(f'{name} {n:,}' for name, n in zip(names, about['labels'], strict=True))}"
        )
    print(*(f"  {remark}\n" for remark in remarks), sep="", end="")
