"""Molecules and labels for fine-tuning: checks, splits and binarises a set of MoleculeNet, or one's own.

    python scripts/prepare_moleculenet.py bbbp BBBP.csv data/bbbp --dict data-bin/smiles/dict.txt
    python scripts/prepare_moleculenet.py bbbp unimol/bbbp data/bbbp --dict ...       # train/valid/test.lmdb
    python scripts/prepare_moleculenet.py mine my.csv data/mine --dict ... --smiles-column SMILES \
        --label-columns logS --kind regression

Known sets, with the columns of DeepChem's files: bace, bbbp, tox21, sider, muv, clintox, toxcast. A CSV may
be packed with gzip. Molecules that cannot be read are left out and named, with their lines, in report.tsv;
tokens that the dictionary lacks become <unk>, named there too, unless --unknown skip. What the folder holds:
scripts/moleculenet/writing.py.
"""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

import numpy as np
import rdkit
from recipes.checkpoints import check_dictionary, read_checkpoint
from recipes.command_line import RecipeError
from recipes.moleculenet import encoding, reading, writing
from recipes.moleculenet.datasets import KNOWN
from recipes.moleculenet.reading import InputError

from fs_plugins.data import molecule_splits
from fs_plugins.data.property_datasets import one_class_only
from fs_plugins.data.property_info import FILE, VERSION, PropertyInfo, fingerprint, label_scale


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], epilog=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("dataset", help=f"{', '.join(KNOWN)}, or a name for one's own")
    add("source", type=Path, help="a CSV file, or a folder with train.lmdb, valid.lmdb and test.lmdb")
    add("output", type=Path, help="the folder to make")
    add(
        "--dict", type=Path, required=True, metavar="FILE", help="dict.txt of the pre-training, or its folder"
    )
    add("--checkpoint", type=Path, metavar="FILE", help="check that dictionary and length fit this one")
    add("--smiles-column", metavar="NAME", help="column of the SMILES (known sets: known; else smiles)")
    add("--label-columns", nargs="+", metavar="NAME", help="columns of the labels (default: all others)")
    add("--kind", choices=("classification", "regression"), default="classification")
    add("--split", choices=("scaffold", "random", "given"), help="(default: scaffold; given for LMDBs)")
    add("--split-column", metavar="NAME", help="with --split given: column with train, valid or test")
    add("--seed", type=int, default=1, help="of --split random (default: 1)")
    add(
        "--smiles",
        choices=("canonical", "as-given"),
        default="canonical",
        help="RDKit's form, or as they are",
    )
    add(
        "--valence",
        choices=("check", "allow"),
        help="atoms with too many bonds (default: check; tox21: allow)",
    )
    add(
        "--unknown",
        choices=("keep", "skip"),
        default="keep",
        help="molecules with tokens not in the dictionary",
    )
    add("--max-unknown", type=float, default=0.05, metavar="P", help="their largest share (default: 0.05)")
    return parser.parse_args(argv)


def read_source(args: argparse.Namespace) -> reading.Table:
    known = KNOWN.get(args.dataset)
    classification = args.kind == "classification"
    if args.source.is_dir():
        from recipes.moleculenet.lmdbs import read_lmdbs

        names = args.label_columns or (list(known.labels) if known else [])
        return read_lmdbs(args.source, names, classification)
    if (args.split == "given") != (args.split_column is not None):
        raise InputError("--split given and --split-column NAME go together")
    return reading.read_csv(
        args.source,
        args.smiles_column or (known.smiles if known else "smiles"),
        args.label_columns or (known.labels if known else ()),
        known.ignored if known else (),
        classification,
        args.split_column,
    )


def split_molecules(kind: str, molecules: list[encoding.Encoded], seed: int) -> molecule_splits.Split:
    try:
        if kind == "scaffold":
            return molecule_splits.scaffold_split([molecule.scaffold for molecule in molecules])
        if kind == "random":
            return molecule_splits.random_split(len(molecules), seed)
        return molecule_splits.given_split([molecule.row.part for molecule in molecules])
    except ValueError as error:
        raise InputError(str(error)) from error


def check_classes(parts: dict[str, np.ndarray], names: list[str]) -> list[str]:
    """What to say of properties with one class only, part by part.

    Raises:
        InputError: if no property has both classes in the training set, so that nothing could be learned.
    """
    remarks = []
    for part, labels in parts.items():
        single = one_class_only(labels)
        if single.all() and part == "train":
            raise InputError(
                "the training set has labels of one class only, or none, for every property: there is "
                "nothing to learn; split the data otherwise (--split random --seed N, or --split given)"
            )
        if single.any():
            shown = [name for name, one in zip(names, single, strict=True) if one]
            more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
            remarks.append(
                f"{part}: {len(shown)} of {len(names)} properties lack labels of both classes "
                f"(no ROC-AUC there): {', '.join(shown[:5])}{more}"
            )
    return remarks


def check_values(parts: dict[str, np.ndarray], names: list[str]) -> list[str]:
    """``check_classes`` for a regression: what to say of properties without any label.

    Raises:
        InputError: if no property has a label in the training set.
    """
    remarks = []
    for part, labels in parts.items():
        without = np.isnan(labels).all(0)
        if without.all() and part == "train":
            raise InputError("the training set has no label at all: are the columns right? (--label-columns)")
        if without.any():
            shown = [name for name, none in zip(names, without, strict=True) if none]
            remarks.append(
                f"{part}: {len(shown)} of {len(names)} properties have no label: {', '.join(shown[:5])}"
            )
    return remarks


def repeated_molecules(parts: dict[str, list[encoding.Encoded]]) -> list[str]:
    """What to say of molecules that occur more than once, compared by RDKit's canonical SMILES."""
    places: dict[str, list[str]] = {}
    for part, molecules in parts.items():
        for molecule in molecules:
            places.setdefault(molecule.canonical, []).append(part)
    repeated = [where for where in places.values() if len(where) > 1]
    if not repeated:
        return []
    apart = sum(len(set(where)) > 1 for where in repeated)
    leak = sum("test" in where and "train" in where for where in repeated)
    remark = f"{len(repeated)} molecules occur more than once (same canonical SMILES)"
    if apart:
        remark += (
            f", {apart} of them in more than one part, {leak} in both train and test: its metrics flatter"
        )
    return [remark]


def prepare(args: argparse.Namespace) -> dict:
    """Makes the folder; returns its description and prints nothing.

    Raises:
        InputError: for input that cannot be used.
        RecipeError: for a checkpoint that does not fit it.
    """
    known = KNOWN.get(args.dataset)
    args.split = args.split or ("given" if args.source.is_dir() else "scaffold")
    if args.source.is_dir() and args.split != "given":
        raise InputError("LMDBs are split already: leave out --split, or give it as given")
    allow = args.valence == "allow" if args.valence else bool(known and known.allow_valence)
    if not 0 <= args.max_unknown <= 1:
        raise InputError(f"--max-unknown {args.max_unknown}: give a share from 0 to 1")
    with writing.new_folder(args.output) as folder:
        dictionary = writing.read_dictionary(args.dict)
        positions = None
        if args.checkpoint is not None:
            pretrained = read_checkpoint(args.checkpoint)
            file, symbols = writing.dictionary_symbols(args.dict)
            check_dictionary(pretrained, symbols, file, writing.OTHER_DICTIONARY)
            positions = pretrained.max_positions
        try:
            table = read_source(args)
        except InputError as error:
            if known or args.label_columns:
                raise
            raise InputError(
                f"{error} ('{args.dataset}' is none of {', '.join(KNOWN)}, whose columns are known: "
                "name those of the labels with --label-columns)"
            ) from error
        molecules, report = encoding.encode(
            table,
            dictionary.symbols,
            canonical=args.smiles == "canonical",
            allow_valence=allow,
            skip_unknown=args.unknown == "skip",
            max_unknown=args.max_unknown,
            scaffolds=args.split == "scaffold",
        )
        split = split_molecules(args.split, molecules, args.seed)
        parts = {name: [molecules[i] for i in getattr(split, name)] for name in molecule_splits.PARTS}
        labels = {name: np.array([m.row.labels for m in rows], np.float32) for name, rows in parts.items()}
        check = check_classes if args.kind == "classification" else check_values
        remarks = [*check(labels, table.names), *repeated_molecules(parts)]
        mean, std = label_scale(labels["train"], args.kind)
        info = PropertyInfo(args.kind, tuple(table.names), mean, std, args.smiles == "canonical", allow)
        sizes = {name: writing.write_split(folder, name, rows, dictionary) for name, rows in parts.items()}
        longest = max(size["longest"] for size in sizes.values())
        if positions is not None and longest > positions:
            remarks.append(
                f"the longest molecule has {longest} tokens, the checkpoint {positions} positions: "
                "fine-tuning needs --long-molecules truncate"
            )
        description = {
            "version": VERSION,
            "dataset": args.dataset,
            **info.to_dict(),
            "split": {"kind": args.split, "seed": args.seed if args.split == "random" else None},
            "sizes": sizes,
            "skipped": report.skipped,
            "unknown_tokens": dict(report.unknown.most_common()),
            "remarks": remarks,
            "dictionary": fingerprint(dictionary.symbols),
            "source": args.source.name,
            "source_sha256": {
                path.name: writing.sha256(path)
                for path in (sorted(args.source.glob("*.lmdb")) if args.source.is_dir() else [args.source])
                if path.is_file()
            },
            "rdkit": rdkit.__version__,
        }
        dictionary.save(str(folder / "dict.txt"))
        writing.write_report(folder, report)
        writing.write_json(folder / FILE, description)
    return description


def describe(args: argparse.Namespace, description: dict) -> str:
    sizes = [description["sizes"][part] for part in molecule_splits.PARTS]
    counts = "/".join(f"{size['molecules']:,}" for size in sizes)
    kind = description["split"]["kind"]
    lines = [
        f"{args.output}: {len(description['names'])} properties ({description['kind']}), {counts} molecules "
        f"(train/valid/test, {kind} split), at most {max(size['longest'] for size in sizes)} tokens"
    ]
    known = KNOWN.get(args.dataset)
    if known is not None and kind == "scaffold" and tuple(s["molecules"] for s in sizes) != known.sizes:
        lines.append(
            f"  the paper's table 9 has {'/'.join(f'{n:,}' for n in known.sizes)}: see docs/molecules.md"
        )
    if description["skipped"]:
        lines.append(f"  {description['skipped']} rows skipped: see {args.output / 'report.tsv'}")
    if description["unknown_tokens"]:
        named = ", ".join(f"{token} ({n})" for token, n in list(description["unknown_tokens"].items())[:10])
        lines.append(
            f"  {len(description['unknown_tokens'])} unknown tokens became <unk>: {named}, see report.tsv"
        )
    return "\n".join(lines + [f"  {remark}" for remark in description["remarks"]])


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    logging.basicConfig(level=logging.WARNING, force=True)  # fairseq has set its own
    try:
        print(describe(args, prepare(args)))
    except (InputError, RecipeError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted: nothing was written") from None


if __name__ == "__main__":
    main()
