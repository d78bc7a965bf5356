"""Small molecules, and fine-tuning on them."""

import csv
import random

import prepare_moleculenet

from tests.support import pages

RINGS = ["c1ccccc1", "C1CCCCC1", "C1CCNCC1", "c1ccncc1", "C1CC1", "C1CCC1", "c1ccoc1", "c1ccsc1"]
ENDS = ["O", "N", "Cl", "Br", "F", "C(=O)O", "C#N", "S"]

# a file of molecules, and the lines that cannot be read
STREAM = ["CCO", "C(", "c1ccccc1", "", "C(C)(C)(C)(C)C", "NCCCCc1ccccc1", "C[Si]C", "CCO"]
BAD = {2: "not a SMILES", 4: "empty SMILES", 5: "valence"}


def molecules(count):
    rng = random.Random(1)
    found = {}
    while len(found) < count:
        smiles = rng.choice(ENDS[:5]) + "C" * rng.randint(0, 6) + rng.choice(RINGS)
        found.setdefault(smiles)
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


def finetune(pretrained, data, save, seed, *flags) -> str:
    """finetune_moleculenet.sh of the ExLM in this process, into SAVE/seed-N; what it says."""
    return pages.run(
        "finetune_moleculenet", *finetuning(pretrained, data, save / f"seed-{seed}", seed, *flags)
    )


def finetuning(pretrained, data, save, seed, *flags) -> tuple:
    """The words of finetune_moleculenet.sh."""
    asked = ("--seed", seed, "--max-epoch", 2, "--cpu", "--batch-size", 16, "--lr", "3e-3", *flags)
    return ("bbbp", pretrained[0]["exlm"], data, save, *asked)


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
