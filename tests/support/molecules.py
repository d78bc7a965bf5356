"""Small molecules with labels."""

import random

import prepare_moleculenet

RINGS = ["c1ccccc1", "C1CCCCC1", "C1CCNCC1", "c1ccncc1", "C1CC1", "C1CCC1", "c1ccoc1", "c1ccsc1"]
ENDS = ["O", "N", "Cl", "Br", "F"]


def molecules(count):
    rng = random.Random(1)
    found = {}
    while len(found) < count:
        found.setdefault(rng.choice(ENDS) + "C" * rng.randint(0, 6) + rng.choice(RINGS))
    return list(found)


def labelled_molecules(folder, count, dictionary, name="bbbp", labels=("ring", "other"), *flags):
    """FOLDER/bin, a set of that name by a random split, with some of these labels: a hetero-aromatic ring or
    not, a second property, and two numbers."""
    rows = ["smiles,ring,other,c,energy"]
    for i, smiles in enumerate(molecules(count)):
        ring, other = int("n" in smiles or "c1cco" in smiles), "" if i % 3 else i % 2
        rows.append(f"{smiles},{ring},{other},{smiles.count('C') % 3},{-5e4 + 10 * len(smiles)}")
    (folder / "set.csv").write_text("\n".join(rows) + "\n")
    argv = [name, folder / "set.csv", folder / "bin", "--dictionary", dictionary, "--label-columns", *labels]
    assert prepare_moleculenet.main([*map(str, [*argv, "--split", "random", *flags])]) == 0
    return folder / "bin"
