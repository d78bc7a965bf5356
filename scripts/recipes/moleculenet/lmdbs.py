"""MoleculeNet as Uni-Mol publishes it: train.lmdb, valid.lmdb and test.lmdb, split already."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from recipes.corpora.blocks import PreparationError
from recipes.corpora.lmdb_reader import LmdbFile, LmdbValueError, decode_value, smiles_of
from recipes.moleculenet.reading import InputError, Row, Table, labels_of

PARTS = ("train", "valid", "test")
MISSING = -1.0  # of classes


def read_lmdbs(folder: Path, names: Sequence[str], classification: bool = True) -> Table:
    """The molecules of the three files, each with its part; -1 is a missing class.

    Args:
        names: of the properties; () for property-1, property-2, ..., as the files do not hold them.

    Raises:
        InputError: if a file is missing or broken, or labels are not as they should be.
    """
    names = list(names)
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError(f"--label-columns has {repeated[0]!r} more than once: name each property once")
    table = Table(names)
    try:
        for part in PARTS:
            with LmdbFile(folder / f"{part}.lmdb") as file:
                keys = sorted(file.keys(), key=lambda key: (len(key), key))  # "10" after "9"
                for number, value in enumerate(file.values(keys), start=1):
                    where = f"{folder / part}.lmdb, entry {number}"
                    try:
                        molecule = decode_value(value)
                        smiles = smiles_of(molecule)
                    except LmdbValueError as error:
                        table.skipped.append((number, "", str(error), part))
                        continue
                    cells = _labels(molecule, where, classification)
                    if not names:
                        names += [f"property-{i + 1}" for i in range(len(cells))]
                    if len(cells) != len(names):
                        raise InputError(f"{where}: {len(cells)} labels where {len(names)} are expected")
                    row = Row(number, smiles, labels_of(cells, names, where, classification), part)
                    table.rows.append(row)
    except PreparationError as error:
        raise InputError(str(error)) from error
    if not table.rows and not table.skipped:
        raise InputError(f"the files in {folder} are empty")
    return table


def _labels(molecule: dict, where: str, classification: bool) -> list[float]:
    if "target" not in molecule:
        raise InputError(f"{where} has no labels under 'target': is this a file of the pre-training?")
    try:
        labels = np.asarray(molecule["target"], dtype=np.float64).reshape(-1)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: the labels under 'target' are no numbers") from error
    return [math.nan if classification and label == MISSING else float(label) for label in labels]
