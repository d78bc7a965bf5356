"""Small molecules, and fine-tuning on them."""

import csv
import os
import random
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "finetune_moleculenet.sh"
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


def finetune(*arguments):
    environment = {**os.environ, "EXLM_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    command = ["bash", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def read_csv(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
