"""R^2 of ridge regressions from embeddings: python docs/results/box_ridge.py MOSES_TEST NAME=VECTORS.npy...

Writes molecules.txt, for `molecules.py embed MODEL molecules.txt --smiles as-given --output VECTORS.npy`; run it again then.
"""

import gzip
import random
import re
import subprocess
import sys

import numpy as np

src = subprocess.run(
    ["git", "show", "efad6228:docs/results/claims.py"], capture_output=True, text=True, check=True
).stdout
ns = {}
exec(re.search(r"DESCRIPTORS = \[.*?\]", src, re.S)[0], ns)
TRAIN = int(re.search(r"TRAIN = ([\d_]+)", src)[1].replace("_", ""))
with gzip.open(sys.argv[1], "rt") as f:
    smiles = random.Random(1).sample(f.read().split(), 25_000)
open("molecules.txt", "w").write("\n".join(smiles) + "\n")
from pathlib import Path

from rdkit import Chem
from rdkit.Chem import Descriptors

t = Path("descriptors.npy")
if not t.exists():
    fs = dict(Descriptors.descList)
    np.save(t, np.array([[fs[n](m) for n in ns["DESCRIPTORS"]] for m in map(Chem.MolFromSmiles, smiles)]))
Y = np.load(t)
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.preprocessing import StandardScaler

first = None
for word in sys.argv[2:]:
    name, path = word.split("=")
    x = np.load(path)
    x = StandardScaler().fit(x[:TRAIN]).transform(x)
    s = np.array(
        [
            r2_score(y[TRAIN:], RidgeCV(np.logspace(-2, 4, 13)).fit(x[:TRAIN], y[:TRAIN]).predict(x)[TRAIN:])
            for y in Y.T
        ]
    )
    first = s if first is None else first
    d = s - first
    print(
        name,
        "ridge R2",
        len(x),
        round(s.mean(), 4),
        round(d.mean(), 4),
        round(d.std(ddof=1) / np.sqrt(len(d)), 4),
        flush=True,
    )
