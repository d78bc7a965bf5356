"""Scaffold, random and given splits; the sizes of table 9 on the real files."""

import csv
import gzip
import os

import pytest
from lib.splits import given_split, random_split, scaffold_split

from fs_plugins.data.molecules import murcko_scaffold, parse_molecule

ALL = "EXLM_TEST_ALL"

# name, SMILES column, rows, table 9. Table 9's rows of BACE and Tox21 add up to one less than their rows.
TABLE_9 = [
    ("BACE", "mol", 1513, (1210, 151, 151), 1),
    ("BBBP", "smiles", 2039, (1631, 204, 204), 0),
    ("ClinTox", "smiles", 1478, (1182, 148, 148), 0),
    ("Tox21", "smiles", 7831, (6264, 783, 783), 1),
    ("ToxCast", "smiles", 8576, (6860, 858, 858), 0),
    ("SIDER", "smiles", 1427, (1141, 143, 143), 0),
    pytest.param(
        *("MUV", "smiles", 93087, (74469, 9309, 9309), 0),
        marks=pytest.mark.skipif(ALL not in os.environ, reason=f"takes a minute: set {ALL}=1"),
    ),
]


def test_scaffold_split_by_hand():
    """DeepChem's rule. Ten rows: 8 may be in train, 9 in train and valid."""
    # a (4), c (2, later in the data than b), b (2); then e, later than d, to valid
    split = scaffold_split(list("aaaabbccde"))
    assert split == {"train": [0, 1, 2, 3, 4, 5, 6, 7], "valid": [9], "test": [8]}


def test_random_and_given_splits():
    one, same, other = random_split(1513, 1), random_split(1513, 1), random_split(1513, 2)
    assert [len(rows) for rows in one.values()] == [1210, 151, 152]
    assert sorted(sum(one.values(), [])) == list(range(1513))
    assert one == same and one["test"] != other["test"]
    assert random_split(20, 7)["test"] == [4, 15]  # NumPy's legacy generator is frozen
    split, drawn = given_split(["Training", "test", "VALID", "train", "dev", "validation"], 1, range(6))
    assert not drawn
    assert split == {"train": [0, 3], "valid": [2, 4, 5], "test": [1]}
    with pytest.raises(ValueError, match="line 9 .*'x'"):
        given_split(["train", "x"], 1, ["line 2", "line 9"])


@pytest.mark.parametrize(("name", "column", "rows", "paper", "not_in_table"), TABLE_9)
def test_sizes_of_table_9(name, column, rows, paper, not_in_table, shared):
    path = shared("data", "moleculenet", f"{name}.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        smiles = [row[column] for row in csv.DictReader(file)]
    assert len(smiles) == rows == sum(paper) + not_in_table
    scaffolds = [murcko_scaffold(parse_molecule(s, name == "Tox21"), as_spelled=True) for s in smiles]
    split = scaffold_split(scaffolds)
    # the one molecule that table 9 does not count is in the test set: what train and valid leave
    assert [len(rows) for rows in split.values()] == [paper[0], paper[1], paper[2] + not_in_table]
    kinds = [{scaffolds[i] for i in rows} for rows in split.values()]
    assert not (kinds[0] & kinds[1] or kinds[0] & kinds[2] or kinds[1] & kinds[2])


def test_valid_is_drawn_from_train_where_none_is_given():
    parts = ["train"] * 27 + ["test"] * 5
    (first, drawn), (again, _), (other, _) = (given_split(parts, seed, parts) for seed in (1, 1, 2))
    assert drawn and first == again != other and first["test"] == [*range(27, 32)]
    assert len(first["valid"]) == 3 and sorted(first["valid"] + first["train"]) == [*range(27)]
