"""Molecules to the folder that --task molecule_property reads.

molecules.json        properties (names, kind, mean and std of the training labels), how the SMILES were read,
                      the split, the sizes, the dictionary's fingerprint, the source and its SHA-256
dict.txt              the dictionary of the pre-training
SPLIT.bin, SPLIT.idx  tokens and </s> of each molecule, in fairseq's format; SPLIT is train, valid or test
SPLIT.labels.npy      float32 [molecules, properties], NaN for a missing label
SPLIT.tsv             line of the source and SMILES as tokenised, one molecule per line, in the same order
report.tsv            molecules that were skipped, or kept with a remark: line, split, status, reason, SMILES
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from fs_plugins.data.molecules import canonical_smiles, murcko_scaffold, parse_molecule
from fs_plugins.data.property_info import one_class_only
from fs_plugins.data.smiles_tokens import tokenize
from lib.command_line import UserError
from lib.corpora.indexed import indexed_dataset, packed
from lib.files import write_lines
from lib.moleculenet.reading import Molecule

LISTED = 5  # properties that a remark names


Splits = dict[str, list[Molecule]]  # "train", "valid", "test"


def encode(
    molecules: list[Molecule],
    symbols: Sequence[str],
    canonical: bool,
    allow_valence: bool,
    max_unknown: float,
) -> Counter:
    """Reads every molecule.

    Args:
        symbols: the dictionary's; molecules with other tokens are kept, with ``<unk>``, and reported.
        canonical, allow_valence: see PropertyInfo.
        max_unknown: the largest share of molecules with such tokens.

    Returns:
        The unknown tokens and how often they occur.

    Raises:
        UserError: if no molecule is left, or too many have unknown tokens.
    """
    known, unknown_tokens, affected = set(symbols), Counter(), 0
    readable = [molecule for molecule in molecules if not molecule.fault]
    for one in readable:
        try:
            molecule = parse_molecule(one.smiles, allow_valence)
            one.canonical = canonical_smiles(molecule, one.smiles)
            one.written = one.canonical if canonical else one.smiles
            one.tokens = tokenize(one.written)
        except ValueError as error:
            one.fault = str(error)
            continue
        one.scaffold = murcko_scaffold(molecule)
        if allow_valence:
            try:
                parse_molecule(one.smiles)
            except ValueError as error:
                one.remarks.append(str(error))
        if unknown := Counter(token for token in one.tokens if token not in known):
            affected += 1
            unknown_tokens += unknown
            one.remarks.append(f"unknown tokens {' '.join(sorted(unknown))}")
    if affected > max_unknown * len(readable):
        named = ", ".join(f"{token} ({count})" for token, count in unknown_tokens.most_common(15))
        raise UserError(
            f"{affected} of {len(readable)} molecules have tokens missing from the dictionary: {named}. "
            "Is it the one of the pre-training? If so, and you accept this, raise --max-unknown"
        )
    if all(one.fault for one in molecules):
        first = f"; the first, line {molecules[0].line}: {molecules[0].fault}" if molecules else ""
        raise UserError(f"no molecule could be read{first}")
    return unknown_tokens


def write_folder(
    folder: Path, molecules: list[Molecule], splits: Splits, labels: dict[str, np.ndarray], dictionary
) -> dict:
    """Writes all but molecules.json.

    Args:
        molecules: all of the source.
        labels: [molecules, properties] of each split.

    Returns:
        For each split ``molecules`` and ``longest``, the most tokens of a molecule with <s> and </s>.
    """
    sizes = {}
    for split, found in splits.items():
        sentences = [[*map(dictionary.index, one.tokens), dictionary.eos()] for one in found]
        with indexed_dataset(folder / split, len(dictionary) + 1) as add:
            add(*packed(sentences))
        np.save(folder / f"{split}.labels.npy", labels[split])
        _write_tsv(folder / f"{split}.tsv", ("line", "smiles"), ((one.line, one.written) for one in found))
        sizes[split] = {"molecules": len(found), "longest": 1 + max(map(len, sentences))}
    report = (
        (one.line, one.split, "skipped" if one.fault else "kept", reason, one.smiles)
        for one in sorted(molecules, key=lambda one: one.line)
        for reason in ([one.fault] if one.fault else one.remarks)
    )
    _write_tsv(folder / "report.tsv", ("line", "split", "status", "reason", "smiles"), report)
    dictionary.save(str(folder / "dict.txt"))
    return sizes


def _write_tsv(path: Path, header: Sequence[str], rows: Iterable[Sequence]) -> None:
    """Tabs and line breaks within cells become spaces."""
    write_lines(path, ("\t".join(" ".join(str(cell).split()) for cell in row) for row in (header, *rows)))


def remarks_on(labels: dict[str, np.ndarray], names: list[str], classification: bool) -> list[str]:
    """What to report of properties without labels, or with labels of one class only, split by split.

    Raises:
        UserError: if that holds for all properties in the training set, so that nothing could be learned.
    """
    remarks = []
    what = "lack labels of both classes (no ROC-AUC there)" if classification else "have no label"
    for split, values in labels.items():
        useless = one_class_only(values) if classification else np.isnan(values).all(0)
        if useless.all() and split == "train":
            raise UserError(
                "every property has labels of one class only in the training set, or none: there is nothing "
                "to learn; split the data differently (--split random --seed N, or --split given)"
                if classification
                else "the training set has no label at all: are the columns right? (--label-columns)"
            )
        if useless.any():
            found = [name for name, one in zip(names, useless, strict=True) if one]
            named = ", ".join(found[:LISTED])
            named += f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
            remarks.append(f"{split}: {len(found)} of {len(names)} properties {what}: {named}")
    return remarks


def repeated_molecules(splits: Splits) -> list[str]:
    """What to report of molecules that occur more than once, compared by RDKit's canonical SMILES."""
    places: dict[str, list[str]] = {}
    for split, molecules in splits.items():
        for molecule in molecules:
            places.setdefault(molecule.canonical, []).append(split)
    repeated = [where for where in places.values() if len(where) > 1]
    if not repeated:
        return []
    apart = sum(len(set(where)) > 1 for where in repeated)
    leak = sum("test" in where and "train" in where for where in repeated)
    across = f", {apart} of them in more than one split, {leak} in both train and test: test metrics are"
    remark = f"{len(repeated)} molecules occur more than once (same canonical SMILES)"
    return [f"{remark}{across} too optimistic" if apart else remark]
