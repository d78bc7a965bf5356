"""Compares the MLMs that may go into pretrained/, and the ExLM there, as plan.md says; writes box.csv.

    python docs/results/box.py data-bin/moses-test moses_test.txt.gz runs/box NAME=MODEL...

The first folder is made of MOSES's test set by prepare_smiles.py (its train split is read); all models get
the same masks. A row has a model's joint bits per masked token, its difference from the first model's, and
this one's standard error over molecules; or R^2 of the ridge regression of claims.py, over descriptors.
"""

import argparse
import csv
from pathlib import Path

import numpy as np
from claims import descriptors, embedding_scores, molecules

from fs_plugins.inference import load
from fs_plugins.measures.masked_measures import likelihoods
from fs_plugins.measures.masked_samples import load_samples
from fs_plugins.measures.means import ClusteredMean

# (p, passes, molecules); 512 passes are one by one
MEASURED = [(0.001, 1, 2000), (0.15, 1, 2000), (0.387, 1, 2000), (0.622, 1, 2000)]
MEASURED += [(0.387, 2, 500), (0.387, 4, 500), (0.387, 512, 200)]
COLUMNS = ["model", "measure", "p", "passes", "molecules", "value", "lead", "standard_error"]


def joint_bits(model, samples: list, p: float, passes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns (bits of all masked tokens, their number) of each sample, by the measure ``joint``."""
    bits, counts = np.zeros((2, len(samples)))
    for batch, joint, _ in likelihoods(model.predictor, samples, p, passes):
        bits[batch.indices], counts[batch.indices] = joint.cpu(), batch.masked.sum(1).cpu()
    return bits, counts


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("molecules", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("models", nargs="+", metavar="NAME=MODEL")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    smiles, rows, first = molecules(args.molecules, args.work), [], {}
    for name, path in (word.split("=", 1) for word in args.models):
        model = load(path, data=args.data, device="cpu")
        all_samples = load_samples(model.checkpoint, split="train", count=2000, break_mode="eos")
        for p, passes, count in MEASURED:
            bits, counts = joint_bits(model, all_samples[:count], p, passes)
            reference = first.setdefault((p, passes), bits)
            lead = ClusteredMean([*(reference - bits)], [*counts]).result()
            value = bits.sum() / counts.sum()
            rows.append([name, "joint", p, passes, lead.sentences, value, lead.mean, lead.standard_error])
        embedded = embedding_scores(Path(path), smiles, args.work / f"{name}.npy")
        for measure, scores in zip(("ridge R2", "ridge R2 beyond counts"), embedded, strict=True):
            lead, n = scores - first.setdefault(measure, scores), len(descriptors(smiles))
            error = lead.std(ddof=1) / np.sqrt(len(lead))
            rows.append([name, measure, "", "", n, scores.mean(), lead.mean(), error])
    with open(Path(__file__).with_name("box.csv"), "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows([*row[:5], *(f"{x:.4f}" for x in row[5:])] for row in rows)


if __name__ == "__main__":
    main()
