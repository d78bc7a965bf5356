"""Small molecules with labels."""

import csv
import random

import numpy as np
import prepare_moleculenet

RINGS = ["c1ccccc1", "C1CCCCC1", "C1CCNCC1", "c1ccncc1", "C1CC1", "C1CCC1", "c1ccoc1", "c1ccsc1"]
ENDS = ["O", "N", "Cl", "Br", "F"]


def molecules(count):
    rng = random.Random(1)
    found = {}
    while len(found) < count:
        found.setdefault(rng.choice(ENDS) + "C" * rng.randint(0, 6) + rng.choice(RINGS))
    return list(found)


def labelled_molecules(folder, count, dictionary, name="bbbp"):
    """FOLDER/bin, a set of that name by a random split: a hetero-aromatic ring or not, a second property."""
    rows = []
    for i, smiles in enumerate(molecules(count)):
        rows.append(f"{smiles},{int('n' in smiles or 'c1cco' in smiles)},{'' if i % 3 else i % 2}")
    (folder / "set.csv").write_text("smiles,ring,other\n" + "\n".join(rows) + "\n")
    argv = [name, folder / "set.csv", folder / "bin", "--dictionary", dictionary, "--label-columns"]
    assert prepare_moleculenet.main(list(map(str, [*argv, "ring", "other", "--split", "random"]))) == 0
    return folder / "bin"


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def numbers(rows, end="", names=("ring", "other")):
    """[rows, properties] of predictions, or of their labels."""
    return np.array([[float(row[name + end] or "nan") for name in names] for row in rows])
