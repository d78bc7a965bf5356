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
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import compress
from pathlib import Path
from textwrap import shorten

import lib  # noqa: F401  (finds the environment)
import numpy as np
import pandas as pd
import rdkit
from lib.command_line import UserError, argument_parser, count, proportion, script, whole
from lib.data.datasets import write_dataset
from lib.data.lmdb_reader import lmdb_file
from lib.data.tables import TableFormat, add_table_arguments
from lib.files import read_json, sha256, tsv_line, write_lines
from lib.finetuning.moleculenet import source
from lib.finetuning.moleculenet.source import KNOWN, KnownSet, LabelFormat, Molecule

from fs_plugins.data.molecules import canonical_smiles, murcko_scaffold, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.text_codecs import smiles_form
from fs_plugins.data.vocabulary import Vocabulary, read_dictionary
from fs_plugins.files import atomic, new_folder, write_json
from fs_plugins.finetuning.moleculenet import splits as splitting
from fs_plugins.finetuning.moleculenet.data import MOLECULES_FILE, label_scale, one_class_only
from fs_plugins.finetuning.outputs import KINDS, PropertyInfo

MOST_SHOWN = 80  # characters of properties' names
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
    add("--split-sizes", nargs=3, type=_share, metavar="X", help=sizes)
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


def _share(text: str) -> Fraction:
    proportion(text) if "." in text else count(text)
    return Fraction(text)


def encode(
    molecules: list[Molecule],
    known: set[str],
    canonical: bool,
    allow_valence: bool,
    max_unknown: float,
    scaffold_of: Callable | None,
) -> Counter:
    """Reads every molecule, as PropertyInfo's ``canonical`` and ``allow_valence`` say; returns which tokens
    are not ``known``, and how often they occur. Molecules with such tokens are kept and reported. Raises
    UserError if no molecule is left, or more than a share ``max_unknown`` have such tokens."""
    unknown_tokens, affected = Counter(), 0
    readable = [molecule for molecule in molecules if not molecule.fault]
    for row in readable:
        try:
            molecule = parse_molecule(row.smiles, allow_valence)
            row.canonical = canonical_smiles(molecule, row.smiles)
            row.written = row.canonical if canonical else row.smiles
            row.tokens = tokenize(row.written)
            row.scaffold = scaffold_of(molecule) if scaffold_of else ""
        except ValueError as error:
            row.fault = str(error)
            continue
        if allow_valence:
            try:
                parse_molecule(row.smiles)
            except ValueError as error:
                row.remarks.append(str(error))
        if unknown := Counter(token for token in row.tokens if token not in known):
            affected += 1
            unknown_tokens += unknown
            row.remarks.append(f"unknown tokens {' '.join(sorted(unknown))}")
    if affected > max_unknown * len(readable):
        named = ", ".join(f"{token} ({count})" for token, count in unknown_tokens.most_common(15))
        raise UserError(
            f"{affected} of {len(readable)} molecules have tokens missing from the dictionary: {named}. "
            "Is it the one of the pre-training? If so, and you accept this, raise --max-unknown"
        )
    faulty = [row for row in molecules if row.fault]
    if not molecules or len(faulty) > len(molecules) / 2:
        first = f": line {faulty[0].line} is {faulty[0].smiles[:60]!r}, {faulty[0].fault}" if faulty else ""
        raise UserError(
            f"{len(faulty):,} of {len(molecules):,} rows cannot be used{first}: choose other columns"
        )
    return unknown_tokens


def remarks_on(labels: dict[str, np.ndarray], names: list[str], classification: bool) -> list[str]:
    """Returns what to report of properties without labels, or with labels of one class or value only, split
    by split. Raises UserError if that holds for all properties in train or valid, so that nothing could be
    learned, or no best epoch be chosen (by a single value it can)."""
    remarks = []
    what = "lack labels of both classes" if classification else "have no labels that differ"
    for split, values in labels.items():
        differ = np.fmin.reduce(values) < np.fmax.reduce(values)
        useless = one_class_only(values) if classification else ~differ
        fatal = useless if classification or split == "train" else np.isnan(values).all(0)
        if fatal.all() and split != "test":
            raise UserError(f"all properties {what} in {split}: choose other labels, or split differently")
        if useless.any():
            named = shorten(", ".join(compress(names, useless)), MOST_SHOWN, placeholder=" ...")
            remarks.append(f"{split}: {useless.sum()} of {len(names)} properties {what}: {named}")
    return remarks


def repeated_molecules(splits: Splits) -> list[str]:
    """Returns what to report of molecules that occur more than once, compared by RDKit's canonical SMILES;
    those with different labels get a remark that names the others."""
    kept = [row for part in splits.values() for row in part]
    rows = [(row.canonical, split, *row.labels) for split, part in splits.items() for row in part]
    table = pd.DataFrame(rows)
    copies = table[table.duplicated(0, keep=False)].groupby(0)
    if not len(copies):
        return []
    distinct = copies.nunique()  # splits of each molecule, then its labels that are not missing
    differ = (distinct.iloc[:, 1:] > 1).any(axis=1)
    for smiles in differ[differ].index:
        several = [kept[i] for i in copies.groups[smiles]]
        for row in several:
            others = ", ".join(f"{one.line} {one.split}".strip() for one in several if one is not row)
            row.remarks.append(f"the same molecule as in line {others}, with another label")
    counts = {
        "with different labels": differ.sum(),
        "in more than one split": (distinct[1] > 1).sum(),
        "in both train and test, so test metrics are too optimistic": sum(
            {"train", "test"} <= {*splits} for splits in copies[1].agg(list)
        ),
    }
    details = "".join(f", {count:,} {what}" for what, count in counts.items() if count)
    return [f"molecules that occur more than once (same canonical SMILES): {len(copies):,}{details}"]


def split_molecules(molecules: list[Molecule], args: argparse.Namespace, seed: int) -> tuple[Splits, bool]:
    """Splits the molecules that can be used, as the arguments say; returns the parts, and whether valid was
    drawn from train, by the seed, as the source has none. Raises ValueError if a part comes out empty, for an
    unknown one, and for a --seed without effect."""
    drawn, kept = False, [molecule for molecule in molecules if not molecule.fault]
    sizes = args.split_sizes or splitting.RATIO
    if args.split == "scaffold":
        rows_of = splitting.scaffold_split([molecule.scaffold for molecule in kept], sizes)
    elif args.split == "random":
        rows_of = splitting.random_split(len(kept), seed, sizes)
    else:
        names = [molecule.split for molecule in kept]
        if args.fold is not None and args.split_column:
            names = splitting.fold_parts(names, str(args.fold))
        places = [f"line {molecule.line}" for molecule in kept]
        rows_of, drawn = splitting.given_split(names, seed, places)
    if args.seed is not None and not drawn and args.split != "random":
        why = "follows from the molecules" if args.split == "scaffold" else "is given"
        raise UserError(
            f"--seed {seed} has no effect, as the split {why}: leave it out, or give --split random; the one "
            "of a training is finetune_moleculenet.sh's"
        )
    return {part: [kept[i] for i in rows] for part, rows in rows_of.items()}, drawn


def write_folder(
    folder: Path, molecules: list[Molecule], splits: Splits, labels: dict[str, np.ndarray], dictionary
) -> dict:
    """Writes all but molecules.json, of all ``molecules`` of the source. Returns for each split how many
    ``molecules``, ``longest``, the most tokens of one with <s> and </s>, and ``labels`` of each property."""
    sizes = {}
    for split, part in splits.items():
        sentences = [[*map(dictionary.index, molecule.tokens), dictionary.eos()] for molecule in part]
        write_dataset(folder / split, sentences, len(dictionary) + 1)
        with atomic(folder / f"{split}.labels.npy", "wb") as file:
            np.save(file, labels[split])
        rows = [("line", "smiles"), *((molecule.line, molecule.written) for molecule in part)]
        write_lines(folder / f"{split}.tsv", (tsv_line(*row) for row in rows))
        sizes[split] = {"molecules": len(part), "longest": 1 + max(map(len, sentences))}
        sizes[split]["labels"] = (~np.isnan(labels[split])).sum(0).tolist()
    report = (
        (molecule.line, molecule.split, "skipped" if molecule.fault else "kept", reason, molecule.smiles)
        for molecule in sorted(molecules, key=lambda molecule: molecule.line)
        for reason in ([molecule.fault] if molecule.fault else molecule.remarks)
    )
    header = ("line", "split", "status", "reason", "smiles")
    write_lines(folder / "report.tsv", (tsv_line(*row) for row in (header, *report)))
    with atomic(folder / "dict.txt") as file:
        dictionary.save(file)
    return sizes


def smiles_of(dictionary: Path) -> str | None:
    """Returns the --smiles of the pre-training whose dictionary it is, if its folder says so."""
    folder = dictionary if dictionary.is_dir() else dictionary.parent
    config = read_json(folder / "config.json") or {}  # exists in a folder for transformers
    return (config.get("fairseq") or {}).get("smiles") or smiles_form(folder)


@script
def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    known, lmdbs = KNOWN.get(args.dataset, KnownSet()), args.source.is_dir()
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
    allow = args.valence == "allow" if args.valence else known.allow_valence
    canonical = args.smiles == "canonical"
    names = args.label_columns or known.labels
    with new_folder(args.output) as folder:
        dictionary = read_dictionary(args.dictionary)
        form, remarks = LabelFormat(args.kind, args.decimal, args.log_target, tuple(args.missing)), []
        if lmdbs:
            names, molecules = source.read_lmdbs(args.source, names, form)
        else:
            table = TableFormat.of(args, known.smiles)
            names, molecules, remarks = source.read_table(
                args.source, names, form, table, known.ignored, args.split_column
            )
        if args.splits_file:
            source.read_splits(args.splits_file, args.fold, molecules)
        remarks += form.check(args.source, molecules, args.skip_broken)
        if broken := sum(bool(molecule.remarks) for molecule in molecules):
            remarks.append(f"{broken} rows lost cells that are not labels: see report.tsv")
        if args.log_target:
            names = [f"log10({name})" for name in names]
        read_as = {"canonical": canonical, "allow_valence": allow, "scaffold_of": None}
        if args.split == "scaffold":  # table 9 has DeepChem's splits, of SMILES as they are spelled
            read_as["scaffold_of"] = partial(murcko_scaffold, as_spelled=args.dataset in KNOWN)
        unknown = encode(molecules, {*dictionary.symbols}, max_unknown=args.max_unknown, **read_as)
        seed = 1 if args.seed is None else args.seed
        parts, drawn = split_molecules(molecules, args, seed)
        if (read := smiles_of(args.dictionary)) not in (None, args.smiles):
            remarks.append(f"the pre-training read SMILES {read}, not {args.smiles}: give --smiles {read}")
        if drawn:
            remarks.append(f"valid: {len(parts['valid']):,} molecules drawn from train, as none were given")
        labels = {part: np.array([row.labels for row in rows], np.float64) for part, rows in parts.items()}
        remarks += remarks_on(labels, names, args.kind == "classification") + repeated_molecules(parts)
        if skipped := sum(bool(molecule.fault) for molecule in molecules):
            remarks.append(f"{skipped} rows skipped: see report.tsv")
        if unknown:
            named = ", ".join(f"{token} ({n})" for token, n in unknown.most_common(10))
            remarks.append(f"{len(unknown)} unknown tokens became <unk>: {named}, see report.tsv")
        mean, std = label_scale(next(iter(labels.values())), args.kind)  # train's, or a test set's alone
        classes = ()
        if args.kind == "multiclass":
            most = max(int(np.nanmax(part, initial=0)) for part in labels.values())
            classes = tuple(f"{names[0]} {i}" for i in range(most + 1))
        sizes = write_folder(folder, molecules, parts, labels, dictionary)
        sources = sorted(args.source.glob("*.lmdb")) if lmdbs else [args.source]
        description = {
            "dataset": args.dataset,
            **PropertyInfo(args.kind, tuple(names), mean, std, canonical, allow, classes).to_dict(),
            "split": {"kind": args.split, "seed": seed if drawn or args.split == "random" else None},
            "sizes": sizes,
            "skipped": skipped,
            "unknown_tokens": dict(unknown.most_common()),
            "remarks": remarks,
            "dictionary": Vocabulary.of(dictionary.symbols, args.dictionary).identity,
            "source": args.source.name,
            "source_sha256": {path.name: sha256(lmdb_file(path)) for path in sources},
            "rdkit": rdkit.__version__,
        }
        write_json(folder / MOLECULES_FILE, description)
    print(f"{args.output}: {args.kind}: {shorten(', '.join(names), MOST_SHOWN, placeholder=' ...')}")
    for part, size in sizes.items():
        print(f"  {part} ({args.split}): {size['molecules']:,} molecules of at most {size['longest']} tokens")
        labelled = ", ".join(f"{name} {n:,}" for name, n in zip(names, size["labels"], strict=True))
        print(f"    labels: {shorten(labelled, MOST_SHOWN, placeholder=' ...')}")
    print(*(f"  {remark}\n" for remark in remarks), sep="", end="")
