"""Splits of molecules into train, valid and test: 8:1:1 (appendix L, table 9), or given ones."""

from collections.abc import Sequence

import numpy as np

from lib.command_line import counted
from lib.labelled_molecules import PARTS

# spelling in tables -> the part
NAMES = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid"}
NAMES |= {"dev": "valid", "development": "valid", "test": "test", "testing": "test", "holdout": "test"}
Split = dict[str, list[int]]  # part, if not empty -> its row numbers, ascending


def scaffold_split(scaffolds: Sequence[str]) -> Split:
    """Returns parts of which no two have a scaffold in common: rare ones are kept for validation and test.

    Groups of one scaffold are taken the largest first; of equally large ones that which appears last in the
    data (its first member has the highest row number) comes first, as DeepChem has it. Each goes to train if
    train stays within 8/10 of the rows; else to valid if train and valid stay within 9/10; else to test. All
    whole numbers, so the outcome depends on nothing but the scaffolds; "" is a group, too. Raises ValueError
    if a part comes out empty, as with fewer than ten rows or one scaffold for all.
    """
    groups: dict[str, list[int]] = {}
    for row, scaffold in enumerate(scaffolds):
        groups.setdefault(scaffold, []).append(row)
    parts: tuple[list[int], ...] = ([], [], [])
    train, valid, test = parts
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if 10 * (len(train) + len(group)) <= 8 * len(scaffolds):
            train += group
        elif 10 * (len(train) + len(valid) + len(group)) <= 9 * len(scaffolds):
            valid += group
        else:
            test += group
    largest = max(map(len, groups.values()), default=0)
    why = f": {counted(len(groups), 'scaffold')}, the largest of {counted(largest, 'molecule')}"
    return _filled(parts, PARTS, f"{why}; use --split random, or --split-column")


def random_split(rows: int, seed: int) -> Split:
    """Returns a permutation by ``seed``, cut at 8/10 and 9/10, rounded down. Raises ValueError if a part
    comes out empty (fewer than ten rows)."""
    order = np.random.RandomState(seed).permutation(rows)  # NumPy never changes its stream
    return _filled(np.split(order, [8 * rows // 10, 9 * rows // 10]), PARTS)


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
    trained = len(parts["train"]) + len(parts["valid"]) > 0
    return _filled([*parts.values()], ("train", "valid") if trained else ("test",)), drawn


def _filled(parts: Sequence[Sequence[int]], needed: Sequence[str], why: str = "") -> Split:
    """Returns the parts by their names. Raises ValueError, with ``why``, where one that is needed has no
    row."""
    for name, part in zip(PARTS, parts, strict=True):
        if len(part) == 0 and name in needed:
            rows = counted(sum(map(len, parts)), "molecule")
            raise ValueError(f"the split of {rows} leaves {name} empty{why}")
    return {name: sorted(map(int, part)) for name, part in zip(PARTS, parts, strict=True) if len(part)}
