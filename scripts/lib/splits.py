"""Splits of molecules into train, valid and test, 8:1:1 (appendix L, table 9) or other shares; given ones."""

import json
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np

from fs_plugins.files import naming_errors
from lib.command_line import UserError, counted
from lib.labelled_molecules import EMPTY_LINE, PARTS, Molecule

RATIO = (8, 1, 1)
Ratio = Sequence[int | Fraction]  # shares of PARTS; one of 0 stays empty
# spelling in tables -> the part
NAMES = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid"}
NAMES |= {"dev": "valid", "development": "valid", "test": "test", "testing": "test", "holdout": "test"}
Split = dict[str, list[int]]  # part, if not empty -> its row numbers, ascending


def scaffold_split(scaffolds: Sequence[str], ratio: Ratio = RATIO) -> Split:
    """Returns parts of which no two have a scaffold in common: rare ones are kept for validation and test.

    Groups of one scaffold are taken the largest first; of equally large ones that which appears last in the
    data (its first member has the highest row number) comes first, as DeepChem has it. Each goes to train if
    train stays within its share (8/10) of the rows; else to valid if train and valid stay within theirs; else
    to test. All whole numbers, so the outcome depends on nothing but the scaffolds; "" is a group, too.
    Raises ValueError if a part comes out empty, as with fewer than ten rows or one scaffold for all.
    """
    groups: dict[str, list[int]] = {}
    for row, scaffold in enumerate(scaffolds):
        groups.setdefault(scaffold, []).append(row)
    rows, whole = len(scaffolds), sum(ratio)
    parts: tuple[list[int], ...] = ([], [], [])
    train, valid, test = parts
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if whole * (len(train) + len(group)) <= ratio[0] * rows:
            train += group
        elif whole * (len(train) + len(valid) + len(group)) <= (ratio[0] + ratio[1]) * rows:
            valid += group
        else:
            test += group
    largest = max(map(len, groups.values()), default=0)
    why = f": {counted(len(groups), 'scaffold')}, the largest of {counted(largest, 'molecule')}"
    return _split(parts, ratio, f"{why}; use a random split or give one")


def random_split(rows: int, seed: int, ratio: Ratio = RATIO) -> Split:
    """Returns a permutation by ``seed``, cut at the shares (8/10 and 9/10), rounded down. Raises ValueError
    if a part comes out empty (fewer than ten rows)."""
    order = np.random.RandomState(seed).permutation(rows)  # NumPy never changes its stream
    cuts = [int(rows * share // sum(ratio)) for share in (ratio[0], ratio[0] + ratio[1])]
    return _split(np.split(order, cuts), ratio)


def given_split(names: Sequence[str], seed: int, places: Sequence[str]) -> tuple[Split, bool]:
    """Returns the part that each row names, as NAMES have it (upper case counts as lower), and whether none
    names valid, which is then a ninth of train (8:1), drawn by ``seed``. There may be no test set, or nothing
    else. Raises ValueError for another name, with the row's ``places``, or an empty part."""
    parts: dict[str, list[int]] = {part: [] for part in PARTS}
    for row, name in enumerate(names):
        if (part := NAMES.get(name.strip().lower())) is None:
            raise ValueError(f"{places[row]} is in the part {name!r}: known are {', '.join(NAMES)}")
        parts[part].append(row)
    if drawn := bool(parts["train"] and not parts["valid"]):
        order = np.random.RandomState(seed).permutation(parts["train"])
        parts["valid"], parts["train"] = np.split(order, [len(order) // 9])
    needed = len(parts["train"]) + len(parts["valid"]) > 0  # by a training
    return _split([*parts.values()], (needed, needed, not needed)), drawn


def fold_parts(folds: Sequence[str], test: str) -> list[str]:
    """Returns the part of each row of a cross-validation, given its fold, a whole number: that of the fold
    ``test`` is test, that of the next one (after the last the first) valid. Raises ValueError for other
    folds, fewer than three, or without ``test``."""
    folds = [fold.strip().removesuffix(".0") for fold in folds]  # pandas writes 1.0 beside an empty cell
    known = sorted({*folds}, key=lambda fold: (not fold.isdecimal(), fold.zfill(9)))
    if test not in known or len(known) < 3 or not known[-1].isdecimal():
        raise ValueError(f"fold {test} of {', '.join(map(repr, known[:10]))}: three or more whole numbers")
    valid = known[(known.index(test) + 1) % len(known)]
    return [{test: "test", valid: "valid"}.get(fold, "train") for fold in folds]


def _split(parts: Sequence[Sequence[int]], ratio: Ratio, why: str = "") -> Split:
    """Returns the parts by their names. Raises ValueError, with ``why``, where one has no row."""
    for name, part, size in zip(PARTS, parts, ratio, strict=True):
        if len(part) == 0 and size > 0:
            rows = counted(sum(map(len, parts)), "molecule")
            raise ValueError(f"the split of {rows} leaves {name} empty{why}")
    return {name: sorted(map(int, part)) for name, part in zip(PARTS, parts, strict=True) if len(part)}


def read_splits(path: Path, fold: int | None, molecules: Sequence[Molecule]) -> None:
    """Takes the molecules' parts from a JSON file such as chemprop's --splits-file: {"train": [0, 1, 4],
    "val": "2-3", "test": [5]}, or a list of such, of which ``fold`` counts. Rows are numbered from 0, without
    empty lines; those that it does not name are left out. Raises UserError for a row that does not exist, or
    in two parts."""
    rows, parts = [row for row in molecules if row.fault != EMPTY_LINE], {}
    with naming_errors(path):
        splits = json.loads(path.read_text(encoding="utf-8"))
        splits = splits if isinstance(splits, list) else [splits]
        if not 0 <= (fold or 0) < len(splits) or (fold is None and len(splits) > 1):
            there = counted(len(splits), "split")
            raise UserError(f"{path} has {there}: give one as --fold 0 to {len(splits) - 1}")
        for name, numbers in splits[fold or 0].items():
            texts = numbers.split(",") if isinstance(numbers, str) else map(str, numbers)
            for first, _, last in (text.strip().partition("-") for text in texts):
                for number in range(int(first), int(last or first) + 1):
                    if (other := parts.setdefault(number, name)) != name:
                        raise UserError(f"{path}: row {number} is in {other} and in {name}: give it once")
    if parts and max(parts) >= len(rows):
        raise UserError(f"{path} has row {max(parts)}, the molecules are 0 to {len(rows) - 1}")
    for number, row in enumerate(rows):
        row.split = parts.get(number, "")
        if row.split.lower() not in NAMES:
            row.fault = row.fault or f"in no part of {path.name}"
