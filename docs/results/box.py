"""Compares MLMs of molecules in plain transformers: python docs/results/box.py MOSES_TEST OUT.csv NAME=FOLDER...

Bits per masked token of molecules of MOSES's test set, by halves of them (A chooses, B tells), the same masks for all,
in one pass or in groups of a random order; R^2 of ridge regressions from mean embeddings on 20 descriptors.
"""

import csv
import gzip
import random
import sys

import numpy as np
import torch
from transformers import AutoModelForMaskedLM, AutoTokenizer

torch.set_num_threads(1)
EACH = 1500
with gzip.open(sys.argv[1], "rt") as f:
    smiles = random.Random(1).sample(f.read().split(), 25000)
MEASURED = [("one", 1, EACH), (0.15, 1, EACH), (0.387, 1, EACH), (0.387, 2, 500), (0.387, 4, 500)]


def masks(ids, p, seed):
    rng = random.Random(f"{seed} {p}")
    inner = list(range(1, len(ids) - 1))
    n = 1 if p == "one" else max(1, round(p * len(inner)))
    return rng.sample(inner, n)  # in a random order


@torch.no_grad()
def bits(model, tok, texts, p, passes, offset):
    ids = [tok(t).input_ids for t in texts]
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    total, count, right = np.zeros(len(ids)), np.zeros(len(ids)), np.zeros(len(ids))
    for b in range(0, len(order), 50):
        part = order[b : b + 50]
        longest = max(len(ids[i]) for i in part)
        truth = torch.full((len(part), longest), tok.pad_token_id)
        for r, i in enumerate(part):
            truth[r, : len(ids[i])] = torch.tensor(ids[i])
        chosen = [masks(ids[i], p, offset + i) for i in part]
        x = truth.clone()
        for r, m in enumerate(chosen):
            x[r, m] = tok.mask_token_id
        for g in range(passes):
            lp = model(input_ids=x, attention_mask=(truth != tok.pad_token_id).long()).logits.log_softmax(
                -1
            ) / np.log(2)
            for r, (i, m) in enumerate(zip(part, chosen)):
                group = m[g * len(m) // passes : (g + 1) * len(m) // passes]
                for j in group:
                    total[i] -= lp[r, j, truth[r, j]].item()
                    count[i] += 1
                    right[i] += (lp[r, j].argmax() == truth[r, j]).item()
                    x[r, j] = truth[r, j]
    return total, count, right


@torch.no_grad()
def embed(model, tok, texts):
    base, out = model.base_model, np.zeros((len(texts), model.config.hidden_size), dtype=np.float32)
    order = sorted(range(len(texts)), key=lambda i: len(texts[i]))
    for b in range(0, len(order), 64):
        part = order[b : b + 64]
        x = tok([texts[i] for i in part], return_tensors="pt", padding=True)
        h = base(**x).last_hidden_state
        m = x.attention_mask.clone()
        m[:, 0] = 0
        m[torch.arange(len(part)), x.attention_mask.sum(1) - 1] = 0
        out[part] = ((h * m[..., None]).sum(1) / m.sum(1, keepdim=True)).numpy()
    return out


DESC = [
    "MolLogP",
    "TPSA",
    "MolWt",
    "qed",
    "NumHDonors",
    "NumHAcceptors",
    "NumRotatableBonds",
    "BalabanJ",
    "Kappa2",
    "MolMR",
    "FractionCSP3",
    "BertzCT",
    "RingCount",
    "NumAromaticRings",
    "HeavyAtomCount",
    "LabuteASA",
    "Chi1v",
    "HallKierAlpha",
    "MaxPartialCharge",
    "PEOE_VSA6",
]


def targets(texts):
    from rdkit import Chem
    from rdkit.Chem import Descriptors

    fs = dict(Descriptors.descList)
    return np.array([[fs[n](m) for n in DESC] for m in map(Chem.MolFromSmiles, texts)])


def ridge(x, y, n):
    from sklearn.linear_model import RidgeCV
    from sklearn.metrics import r2_score
    from sklearn.preprocessing import StandardScaler

    x = StandardScaler().fit(x[:n]).transform(x)
    return np.array(
        [r2_score(t[n:], RidgeCV(np.logspace(-2, 4, 13)).fit(x[:n], t[:n]).predict(x[n:])) for t in y.T]
    )


out, first = [], {}
E = smiles[10000:16000]
Y = targets(E)
for word in sys.argv[3:]:
    name, folder = word.split("=", 1)
    tok, model = AutoTokenizer.from_pretrained(folder), AutoModelForMaskedLM.from_pretrained(folder).eval()
    for p, passes, n in MEASURED:
        for half, start in (("A", 0), ("B", 5000)):
            t, c, r = bits(model, tok, smiles[start : start + n], p, passes, start)
            ref = first.setdefault((p, passes, half), t)
            d = ref - t
            lead = d.sum() / c.sum()
            se = np.sqrt(((d - lead * c) ** 2).sum()) / c.sum()
            row = [name, "bits", p, passes, half, n, t.sum() / c.sum(), lead, se, r.sum() / c.sum()]
            out.append(row)
            print(*row, flush=True)
    s = ridge(embed(model, tok, E), Y, 4500)
    d = s - first.setdefault("ridge", s)
    row = [name, "ridge R2", "", "", "", 6000, s.mean(), d.mean(), d.std(ddof=1) / np.sqrt(len(d)), ""]
    out.append(row)
    print(*row, flush=True)
with open(sys.argv[2], "w", newline="") as f:
    csv.writer(f).writerows(out)
