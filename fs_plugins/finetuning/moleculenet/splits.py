"""Splits of a set of molecules into train, valid and test, 8:1:1 (appendix L, table 9)."""

from collections.abc import Sequence

import numpy as np

RATIO = (8, 1, 1)
PARTS = ("train", "valid", "test")
# how tables write them -> the part
NAMES = {"train": "train", "training": "train", "valid": "valid", "validation": "valid", "val": "valid"}
NAMES |= {"dev": "valid", "development": "valid", "test": "test", "testing": "test", "holdout": "test"}
Split = dict[str, list[int]]  # of each of PARTS its row numbers, ascending; every row is in one


def _split(parts: Sequence[Sequence[int]], rows: int, why: str = "") -> Split:
    """Returns the parts by their names. Raises ValueError, with ``why``, where one has no row."""
    for name, part in zip(PARTS, parts, strict=True):
        if len(part) == 0:
            raise ValueError(f"the split of {rows:,} molecules leaves {name} empty{why}")
    return {name: sorted(map(int, part)) for name, part in zip(PARTS, parts, strict=True)}


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
    rows, whole = len(scaffolds), sum(RATIO)
    parts: tuple[list[int], ...] = ([], [], [])
    train, valid, test = parts
    for group in sorted(groups.values(), key=lambda group: (len(group), group[0]), reverse=True):
        if whole * (len(train) + len(group)) <= RATIO[0] * rows:
            train += group
        elif whole * (len(train) + len(valid) + len(group)) <= (RATIO[0] + RATIO[1]) * rows:
            valid += group
        else:
            test += group
    largest = max(map(len, groups.values()), default=0)
    why = f": there are {len(groups):,} scaffolds, the largest of {largest} molecules; use a random split"
    return _split(parts, rows, f"{why} or give one")


def random_split(rows: int, seed: int) -> Split:
    """Returns a permutation by ``seed``, cut at 8/10 and 9/10, rounded down. Raises ValueError if a part
    comes out empty (fewer than ten rows)."""
    order = np.random.RandomState(seed).permutation(rows)  # whose stream is frozen
    cuts = [rows * RATIO[0] // sum(RATIO), rows * (RATIO[0] + RATIO[1]) // sum(RATIO)]
    return _split(np.split(order, cuts), rows)


def given_split(names: Sequence[str], seed: int) -> tuple[Split, bool]:
    """Returns the part that each row names, as NAMES have it (upper case counts as lower), and whether none
    names valid, which is then a ninth of train (8:1), drawn by ``seed``. Raises ValueError for another name,
    or an empty part."""
    parts: dict[str, list[int]] = {part: [] for part in PARTS}
    for row, name in enumerate(names):
        if (part := NAMES.get(name.strip().lower())) is None:
            raise ValueError(f"row {row + 1} is in the part {name!r}: known are {', '.join(NAMES)}")
        parts[part].append(row)
    if drawn := not parts["valid"]:
        order = np.random.RandomState(seed).permutation(parts["train"])
        parts["valid"], parts["train"] = np.split(order, [len(order) // 9])
    return _split(list(parts.values()), len(names)), drawn
