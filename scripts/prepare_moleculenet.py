"""Prepares molecules with labels for fine-tuning: checks, splits and binarises MoleculeNet, or your own.

    python scripts/prepare_moleculenet.py bbbp BBBP.csv data-bin/bbbp --dictionary data-bin/smiles
    python scripts/prepare_moleculenet.py bbbp unimol/bbbp data-bin/bbbp --dictionary data-bin/smiles
    python scripts/prepare_moleculenet.py mine my.csv data-bin/mine --dictionary data-bin/smiles \\
        --smiles-column SMILES --label-columns logS --kind regression

The source is a table (CSV, TSV, plain or .gz) or a folder with Uni-Mol's train.lmdb, valid.lmdb
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
import re
import shlex
from collections import Counter
from collections.abc import Iterable
from itertools import starmap
from pathlib import Path
from textwrap import shorten

import numpy as np
import pandas as pd
import rdkit
from lib import splits
from lib.command_line import SEVERAL, UserError, argument_parser, counted, proportion, script, whole
from lib.data.datasets import write_dataset
from lib.data.frames import TableFormat, add_table_arguments
from lib.files import read_json, sha256, tsv_line, write_lines
from lib.labelled_molecules import far_labels, labels_of, read_lmdbs, read_table
from lib.moleculenet import KNOWN, KnownSet

from fs_plugins.data.molecules import canonical_smiles, murcko_scaffold, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.text_codecs import smiles_form
from fs_plugins.data.vocabulary import Vocabulary, read_dictionary
from fs_plugins.files import atomic, new_folder, write_json
from fs_plugins.finetuning.moleculenet.data import MOLECULES_FILE, label_scale
from fs_plugins.finetuning.outputs import KINDS, PropertyInfo

FEW = 5  # labels of a class, below which metrics say little
LISTED = 10  # most rows listed in a message


def parser() -> argparse.ArgumentParser:
    result = argument_parser(__doc__)
    add = result.add_argument
    add("dataset", help=f"{', '.join(KNOWN)}, or a name of your own")
    add("source", type=Path, help="a table, or a folder with train.lmdb, valid.lmdb and test.lmdb")
    add("output", type=Path, help="folder to write")
    add("--dictionary", type=Path, required=True, metavar="FILE", help="dict.txt or its folder")
    add_table_arguments(result)
    labels = "(default: all other columns, or those of the known set)"
    add("--label-columns", **SEVERAL, metavar="NAME", default=[], help=labels)
    broken = "leave cells out that are not labels, and rows without a label, and list them in report.tsv"
    missing = "cells that stand for a missing label, besides empty ones, such as NA ND"
    add("--missing", **SEVERAL, default=[], metavar="CELL", help=missing)
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


def check_labels(rows: pd.DataFrame, cells: pd.DataFrame, args: argparse.Namespace) -> pd.DataFrame:
    """Returns the labels of all rows. Cells that are not labels raise UserError or, with --skip-broken, are
    remarks; rows without another label are skipped."""
    labels, broken = labels_of(cells, args.kind, args.missing)
    # the cells of a row that is too long say so, as its SMILES does
    checked = ~rows["skipped"] & ~rows["smiles"].str.contains(r"\s")
    wrong = broken[checked & broken.any(axis=1)]
    for row, which in wrong.iterrows():
        named = ", ".join(f"{name} is {cells.at[row, name]!r}" for name in cells.columns[which])
        rows.at[row, "remarks"].append(f"not a label: {named}")
        rows.at[row, "skipped"] = labels.loc[row].isna().all()
    if len(wrong) and not args.skip_broken:
        words = dict.fromkeys(str(cell) for cell in cells.to_numpy()[broken.to_numpy()])
        words = [word for word in words if not re.search(r"\d", word)][:4]
        wanted = {
            "classification": "0 or 1 (--kind regression: numbers)",
            "regression": "numbers, as 1.5 and not 1,5",
        }
        first = rows.loc[wrong.index[:LISTED]].itertuples()
        few = words and broken.to_numpy().mean() <= 0.5  # else they are the labels, in other words
        missing = f" name missing labels (--missing {shlex.join(words)})," if few else ""
        raise UserError(
            f"{args.source} has {counted(len(wrong), 'row')} with cells that are no labels: "
            f"{wanted[args.kind]}. Choose --label-columns,{missing} write them so, or leave them out "
            "(--skip-broken)" + "".join(f"\n  line {row.line}: {row.remarks[0][:200]}" for row in first)
        )
    return labels


def encode(
    rows: pd.DataFrame, args: argparse.Namespace, allow_valence: bool, known: set
) -> tuple[pd.DataFrame, Counter]:
    """Returns the rows that can be used, with "canonical" SMILES, by which repeated molecules are found,
    "written", as the model gets it, its "tokens" and, if it is needed, "scaffold"; and how often tokens occur
    that are not ``known``. Raises UserError if too many molecules have such tokens, or cannot be used."""
    found, unknown_tokens = {}, Counter()
    for row, smiles in rows.loc[~rows["skipped"], "smiles"].items():
        try:
            molecule = parse_molecule(smiles, allow_valence)
            canonical = canonical_smiles(molecule, smiles)
            written = canonical if args.smiles == "canonical" else smiles
            # table 9 has DeepChem's splits, of SMILES as they are spelled
            scaffold = murcko_scaffold(molecule, args.dataset in KNOWN) if args.split == "scaffold" else ""
            found[row] = canonical, written, tokenize(written), scaffold
        except ValueError as error:
            rows.at[row, "skipped"] = True
            rows.at[row, "remarks"].append(f"invalid SMILES: {error}")
            continue
        if allow_valence:
            try:
                parse_molecule(smiles)
            except ValueError as error:
                rows.at[row, "remarks"].append(f"valence: {error}")
    if 2 * (skipped := rows["skipped"].sum()) > len(rows):
        first = rows[rows["skipped"]].iloc[0]
        raise UserError(
            f"{skipped:,} of {counted(len(rows), 'row')} cannot be used: line {first.line} is "
            f"{first.smiles[:60]!r}, {first.remarks[-1]}: choose other columns"
        )
    columns = ["canonical", "written", "tokens", "scaffold"]
    kept = rows.join(pd.DataFrame.from_dict(found, orient="index", columns=columns), how="inner")
    unknown = kept["tokens"].map(lambda tokens: [token for token in tokens if token not in known])
    for row, tokens in unknown[unknown.astype(bool)].items():
        unknown_tokens.update(tokens)
        rows.at[row, "remarks"].append(f"unknown tokens: {' '.join(sorted({*tokens}))}")
    if (affected := unknown.astype(bool).sum()) > args.max_unknown * len(kept):
        named = listed(f"{token} ({n})" for token, n in unknown_tokens.most_common())
        raise UserError(
            f"{affected} of {counted(len(kept), 'molecule')} have tokens missing from the dictionary: "
            f"{named}. Is it the one of the pre-training? If so, and you accept this, raise --max-unknown"
        )
    return kept, unknown_tokens


def split(kept: pd.DataFrame, args: argparse.Namespace) -> tuple[dict[str, pd.DataFrame], bool]:
    """Returns the parts of the rows that can be used, and whether they were drawn by --seed. Raises
    ValueError if a part comes out empty, or for an unknown one."""
    drawn = args.split == "random"
    if args.split == "scaffold":
        places = splits.scaffold_split([*kept["scaffold"]])
    elif drawn:
        places = splits.random_split(len(kept), args.seed)
    else:
        lines = [f"line {line}" for line in kept["line"]]
        places, drawn = splits.given_split([*kept["split"]], args.seed, lines)
    return {part: kept.iloc[of_part] for part, of_part in places.items()}, drawn


def labels_remarks(labels: dict[str, pd.DataFrame], classification: bool) -> list[str]:
    """Returns what to report of properties with few labels of a class, for each split. Raises UserError if no
    property can be learned, or the best epoch not be chosen."""
    remarks = []
    for part, values in labels.items():
        # by a single value the best epoch of a regression can be chosen
        enough = 2 if classification or part == "train" else 1
        if values.nunique().lt(enough).all() and part != "test":
            rare = f" ({int(values.eq(1).sum().sum())} positive)" if classification else ""
            elsewhere = pd.concat([*labels.values()]).nunique().ge(enough).any()
            way_out = "try --split random, or " if elsewhere else ""
            raise UserError(f"no labels differ in {part}{rare}: {way_out}choose other labels")
        if not classification and part == "train":
            of_classes = values.isin([0, 1]).sum().eq(values.count()) & values.nunique().eq(2)
            if of_classes.any():
                named = listed(values.columns[of_classes])
                remarks.append(f"all labels are 0 or 1: {named}: --kind classification?")
        counts = pd.DataFrame({"positive": values.eq(1).sum(), "negative": values.eq(0).sum()})
        few = counts[counts.min(axis=1) < FEW]
        if classification and len(few):
            shown = listed(f"{name} ({p} positive, {n} negative)" for name, p, n in few.itertuples())
            remarks.append(
                f"{part}: fewer than {FEW} labels of a class, too few for a reliable metric: {shown}"
            )
    return remarks


def write_folder(folder: Path, parts: dict[str, pd.DataFrame], labels: dict, dictionary) -> dict:
    """Writes dictionary and splits. Returns for each how many ``molecules``, ``longest``, the most tokens of
    one with <s> and </s>, and of each property how many ``labels`` and how many of them are ``positives``,
    that is 1."""
    sizes = {}
    for part, rows in parts.items():
        sentences = [[*map(dictionary.index, tokens), dictionary.eos()] for tokens in rows["tokens"]]
        write_dataset(folder / part, sentences, len(dictionary) + 1)
        with atomic(folder / f"{part}.labels.npy", "wb") as file:
            np.save(file, np.ascontiguousarray(labels[part]))
        write_table(folder / f"{part}.tsv", rows[["line", "written"]].rename(columns={"written": "smiles"}))
        sizes[part] = {"molecules": len(rows), "longest": 1 + max(map(len, sentences))}
        sizes[part]["labels"] = labels[part].count().tolist()
        sizes[part]["positives"] = labels[part].eq(1).sum().tolist()
    with atomic(folder / "dict.txt") as file:
        dictionary.save(file)
    return sizes


def report_of(rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Returns what was skipped, or kept with a remark, by line; and a summary, by the kinds of reasons."""
    report = rows.assign(reason=rows["remarks"], status=np.where(rows["skipped"], "skipped", "kept"))
    report = report.sort_values("line", kind="stable").explode("reason").dropna(subset="reason")
    kinds = report.groupby(["status", report["reason"].str.split(":").str[0]], sort=False)
    summary = [
        f"{counted(len(found), 'row')} {status}: {kind}: "
        + listed(f"line {row.line}: {row.reason.removeprefix(kind)[2:]}" for row in found.itertuples())
        for (status, kind), found in kinds
    ]
    return report[["line", "split", "status", "reason", "smiles"]], summary


def write_table(path: Path, table: pd.DataFrame) -> None:
    write_lines(path, starmap(tsv_line, [table.columns, *table.itertuples(index=False, name=None)]))


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
    if lmdbs and (given := args.split or args.split_column):
        option = "--split" if args.split else "--split-column"
        raise UserError(f"{option} {given}: the files of {args.source} are a split already, leave it out")
    if not (args.split_column or lmdbs):
        args.split = args.split or "scaffold"
    allow_valence = args.valence == "allow" if args.valence else known.allow_valence
    dictionary, names = read_dictionary(args.dictionary), args.label_columns or known.labels
    with new_folder(args.output) as folder:
        if lmdbs:
            rows, cells = read_lmdbs(args.source, names, args.kind)
        else:
            form = TableFormat.of(args, known.smiles)
            rows, cells = read_table(args.source, form, names, known.ignored, args.split_column)
        labels = check_labels(rows, cells, args)
        kept, unknown = encode(rows, args, allow_valence, {*dictionary.symbols})
        first = kept.index.to_series().groupby(kept["canonical"]).transform("first")
        for row in kept.index[kept["canonical"].duplicated()]:
            differs = labels.loc[row].sub(labels.loc[first[row]]).abs().gt(0).any()  # where both are known
            other = " with other labels" if differs else ""
            rows.at[row, "remarks"].append(
                f"repeated{other}: the molecule of line {rows.at[first[row], 'line']}"
            )
        for (row, name), distance in far_labels(labels.loc[kept.index], args.kind).items():
            about = f"{name} is {labels.at[row, name]:g}, {distance:.0f} standard deviations from the mean"
            rows.at[row, "remarks"].append(f"in another unit?: {about}")
        parts, drawn = split(kept, args)
        for part, of_part in parts.items():
            rows.loc[of_part.index, "split"] = part
        report, remarks = report_of(rows)
        write_table(folder / "report.tsv", report)
        labels = {part: labels.loc[of_part.index] for part, of_part in parts.items()}
        if (read := smiles_of(args.dictionary)) not in (None, args.smiles):
            remarks.append(f"the pre-training read SMILES {read}, not {args.smiles}: give --smiles {read}")
        if drawn and not args.split:
            number = counted(len(parts["valid"]), "molecule")
            remarks.append(f"valid: {number} drawn from train, as none were given")
        remarks += labels_remarks(labels, args.kind == "classification")
        inside = {part: {*of_part["canonical"]} for part, of_part in parts.items()}
        for part in ("train", "valid"):
            if both := len(inside.get(part, set()) & inside.get("test", set())):
                remarks.append(
                    f"in both {part} and test: {counted(both, 'molecule')}, so test metrics flatter"
                )
        names = tuple(cells.columns)
        # the scale is train's, or that of a test set alone
        mean, std = label_scale(next(iter(labels.values())).to_numpy(), args.kind)
        info = PropertyInfo(args.kind, names, mean, std, args.smiles == "canonical", allow_valence)
        files = sorted(args.source.glob("*.lmdb")) if lmdbs else [args.source]
        description = {
            "dataset": args.dataset,
            **info.to_dict(),
            "split": {"kind": args.split or "given", "seed": args.seed if drawn else None},
            "sizes": write_folder(folder, parts, labels, dictionary),
            "skipped": len(rows) - len(kept),
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
        print(f"  {part}: {counted(about['molecules'], 'molecule')} of at most {about['longest']} tokens")
        counts = about["labels"]
        if args.kind == "classification":
            counts = [f"{n:,} ({p:,} positive)" for n, p in zip(counts, about["positives"], strict=True)]
        print(f"    labels: {listed(f'{name} {n}' for name, n in zip(names, counts, strict=True))}")
    print(*(f"  {remark}\n" for remark in remarks), sep="", end="")
