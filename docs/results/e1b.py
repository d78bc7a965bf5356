"""Runs E1b and E2b of plan.md: a unit (one pre-training and its scores) after the other.

    python docs/results/e1b.py DATA MOLECULES WORK --seeds 4 5 6 --arms mlm@5e-4 exlm@5e-4 ...
    python docs/results/e1b.py DATA MOLECULES WORK --protocol CHECKPOINT_A CHECKPOINT_B
    python docs/results/e1b.py DATA MOLECULES WORK --tied --seeds 5 6 7 8

DATA is the folder of the drug-like mix, MOLECULES moses_test.txt.gz, WORK a folder for checkpoints. Rows are
appended to e1b.csv, e1b_protocol.csv and e2b.csv beside this file as they come; units that have their row are
skipped, interrupted trainings resumed; each unit is locked.
"""

import argparse
import fcntl
import itertools
import json
import os
import re
import sys
from pathlib import Path

import claims
import numpy as np
import pandas as pd
from claims import DESCRIPTORS, run

HERE = Path(__file__).parent
PROPERTIES = (
    "MolLogP",
    "TPSA",
    "qed",
    "NumHDonors",
    "NumHAcceptors",
    "NumRotatableBonds",
    "BalabanJ",
    "Kappa2",
)
COLUMNS = [DESCRIPTORS.index(name) for name in PROPERTIES]
SIZES = {"train": 2000, "valid": 500, "test": 2000}
EPOCHS = 40
LONG = 16_000  # updates of the long pair
CELLS = [(True, 0.15), (False, 0.387), (True, 0.387)]  # of E2b: copies masked together, p
LEFT = 0.01  # of a descriptor's variance, that counts have to leave for it to be scored beyond counts


def data_of(args: argparse.Namespace, smiles: Path, dictionary: Path, name: str) -> Path:
    """Returns the folder of the eight properties of 4,500 molecules, by a dictionary."""
    folder, table = args.work / name, args.work / f"{name}.csv"
    if not (folder / "molecules.json").exists():
        splits = [split for split, size in SIZES.items() for _ in range(size)]
        rows = pd.DataFrame(claims.descriptors(smiles)[: len(splits), COLUMNS], columns=PROPERTIES)
        rows.insert(0, "smiles", smiles.read_text().split()[: len(splits)])
        rows.assign(split=splits).to_csv(table, index=False)
        words = ("eight", table, folder, "--dictionary", dictionary, "--kind", "regression")
        words += ("--label-columns", *PROPERTIES, "--split", "given", "--split-column", "split")
        run(sys.executable, "scripts/prepare_moleculenet.py", *words)
    return folder


def fine_tuned(checkpoint: Path, data: Path, save: Path, seed: int) -> dict:
    """Returns the test RMSE of each property of a fine-tuning, and the epoch that validation chose."""
    flags = ("--max-epoch", EPOCHS, "--lr", 5e-4, "--batch-size", 32, "--seed", seed, "--cpu")
    run("bash", "scripts/finetune_moleculenet.sh", "eight", checkpoint, data, save, *flags)
    for left_over in save.glob("checkpoint_*.pt"):
        left_over.unlink()
    table = pd.read_csv(save / "test.predictions.csv")
    errors = {
        name: float(np.sqrt(np.mean((table[name] - table[f"{name} (label)"]) ** 2))) for name in PROPERTIES
    }
    log = (save / "train.log").read_text()
    valid = [float(value) for value in re.findall(r'"valid_score": "([\d.]+)"', log)]
    return errors | {"valid_by_epoch": " ".join(map(str, valid))}


def unit(args: argparse.Namespace, seed: int, arm: str) -> dict:
    """Returns the row of one pre-training: ARM@RATE, or ARM-untrained@0."""
    kind, rate = arm.split("@")
    model, untrained = kind.partition("-")[0], kind.endswith("untrained")
    updates = 0 if untrained else args.updates
    smiles = claims.molecules(args.molecules, args.work)
    save = args.work / "e1b" / f"{arm}-{updates}-s{seed}"
    flags = ["--p", 0.15, "--seed", seed, *(["--k", 2] if model == "exlm" else [])]
    trained = ["--lr", rate, "--updates", updates, "--warmup-updates", updates // 10]
    if updates == LONG:
        trained += ["--save-interval-updates", 1000, "--keep-interval-updates", 16]
    checkpoint, bits, spent = claims.pretrain(
        save, args.data, model, *flags, *(claims.UNTRAINED if untrained else trained)
    )
    row = {
        "arm": kind,
        "rate": rate,
        "seed": seed,
        "updates": updates,
        "valid_bits": bits,
        "seconds": round(spent),
    }
    vectors = save / "vectors.npy"
    claims.embedding_scores(checkpoint, smiles, vectors)
    beyond = claims.ridge_scores(np.load(vectors), claims.beyond_counts(smiles))
    left = scored(smiles)
    row |= {"r2_beyond_counts": beyond[left].mean(), "descriptors": int(left.sum())}
    measures = {
        "joint": ("--mask-prob", 0.15, "--max-sentences", 2000),
        "entropy": ("--max-sentences", 2000),
        "states": ("--max-sentences", 500),
    }
    if model == "mlm":
        del measures["states"]
    for measure, more in measures.items():
        row |= measured(measure, checkpoint, save / f"{measure}.json", *more)
    if args.updates == LONG:
        for update in (1000, 2000, 4000, 8000):
            [before] = save.glob(f"checkpoint_*_{update}.pt")
            bits = measured("joint", before, save / f"joint-{update}.json", *measures["joint"])
            row |= {f"{name}@{update}": value for name, value in bits.items()}
    if args.updates == 4000:
        data = data_of(args, smiles, args.data, "eight")
        row |= fine_tuned(checkpoint, data, save / "eight", seed)
    return row


def measured(measure: str, checkpoint: Path, output: Path, *words: object) -> dict:
    """Returns the means of a measure of a checkpoint, by name."""
    if not output.exists():
        words = (measure, checkpoint, *words, "--output", output, "--device", "cpu")
        run(sys.executable, "-m", "fs_plugins.measures", *words)
    [result] = json.loads(output.read_text())["rows"][0]["results"]
    return {f"{measure}:{name}": mean["mean"] for name, mean in result.items() if isinstance(mean, dict)}


def tied_unit(args: argparse.Namespace, seed: int, cell: tuple[bool, float]) -> dict:
    """Returns the row of one cell of E2b: whether the two copies of a token are masked together, and p."""
    (together, p), smiles = cell, claims.molecules(args.molecules, args.work)
    save = args.work / "e2b" / f"{'tied' if together else 'independent'}-{p}-s{seed}"
    flags = ["--k", 2, "--p", p, "--seed", seed, "--lr", 2e-3, "--updates", 1000, "--warmup-updates", 100]
    os.environ["EXLM_TIE_MASKS"] = "1" if together else ""
    checkpoint, bits, spent = claims.pretrain(save, args.data, "repeated-mlm", *flags)
    claims.embedding_scores(checkpoint, smiles, save / "vectors.npy")
    beyond = claims.ridge_scores(np.load(save / "vectors.npy"), claims.beyond_counts(smiles))
    row = {
        "tied": together,
        "p": p,
        "seed": seed,
        "updates": 1000,
        "valid_bits": bits,
        "seconds": round(spent),
    }
    row["r2_beyond_counts"] = beyond[scored(smiles)].mean()
    return row | dict(zip(DESCRIPTORS, beyond, strict=True))


def scored(smiles: Path) -> np.ndarray:
    """Returns of which descriptors counts leave more than 1% of the variance, [20] bool."""
    return claims.beyond_counts(smiles).var(0) / claims.descriptors(smiles).var(0) > LEFT


def append(name: str, row: dict) -> None:
    """Appends a row to a CSV beside this file; new columns are added at its end."""
    path = HERE / name
    table = pd.read_csv(path, dtype=str) if path.exists() else pd.DataFrame()
    pd.concat([table, pd.DataFrame([row]).astype(str)]).to_csv(path, index=False)


def once(args: argparse.Namespace, name: str, csv: str, function) -> None:
    """Calls a function whose row is not there yet, unless another process does."""
    with open(args.work / f"{name}.json", "a+") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if lock.seek(0, 2):
            return
        row = function() | {"commit": claims.commit()}
        append(csv, row)
        lock.write(json.dumps(row))


def protocol(args: argparse.Namespace, checkpoint: Path, seed: int) -> dict:
    """Returns the row of a fine-tuning of the protocol's check."""
    smiles, name = claims.molecules(args.molecules, args.work), checkpoint.stem
    data = data_of(args, smiles, checkpoint, f"eight-{name}")
    return {"checkpoint": name, "seed": seed} | fine_tuned(
        checkpoint, data, args.work / f"protocol-{name}-{seed}", seed
    )


def ridge(args: argparse.Namespace) -> dict:
    """Returns the test RMSE of a ridge regression on counts of tokens and of pairs of neighbours."""
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    lines = claims.molecules(args.molecules, args.work).read_text().split()[: sum(SIZES.values())]
    targets = claims.descriptors(claims.molecules(args.molecules, args.work))[: len(lines), COLUMNS]
    bag = CountVectorizer(tokenizer=claims.tokenize, lowercase=False, token_pattern=None, ngram_range=(1, 2))
    train, test = slice(SIZES["train"]), slice(-SIZES["test"], None)
    bag.fit(lines[train])
    scale = StandardScaler().fit(bag.transform(lines[train]).toarray())
    x = scale.transform(bag.transform(lines).toarray())
    row = {"checkpoint": "ridge on counts of tokens and pairs"}
    for name, y in zip(PROPERTIES, targets.T, strict=True):
        found = RidgeCV(np.logspace(-2, 4, 13)).fit(x[train], y[train]).predict(x[test])
        row[name] = float(np.sqrt(np.mean((found - y[test]) ** 2)))
    return row


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", type=Path)
    parser.add_argument("molecules", type=Path)
    parser.add_argument("work", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[4, 5, 6])
    parser.add_argument("--arms", nargs="+", default=[], help="ARM@RATE")
    parser.add_argument("--updates", type=int, default=4000, help="other than 4000: no fine-tuning")
    parser.add_argument(
        "--protocol", type=Path, nargs="+", default=[], help="checkpoints, with three seeds each"
    )
    parser.add_argument("--tied", action="store_true", help="E2b instead of E1b's arms")
    args = parser.parse_args()
    args.work, args.data, args.molecules = args.work.resolve(), args.data.resolve(), args.molecules.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    if args.protocol:
        once(args, "protocol-ridge", "e1b_protocol.csv", lambda: ridge(args))
    for checkpoint, seed in itertools.product(args.protocol, (1, 2, 3)):
        checkpoint = checkpoint.resolve()
        name = f"protocol-{checkpoint.stem}-{seed}"
        once(args, name, "e1b_protocol.csv", lambda c=checkpoint, s=seed: protocol(args, c, s))
    for seed, cell in itertools.product(args.seeds if args.tied else (), CELLS):
        once(args, f"e2b-{cell[0]}-{cell[1]}-{seed}", "e2b.csv", lambda s=seed, c=cell: tied_unit(args, s, c))
    for seed, arm in itertools.product(args.seeds, args.arms):
        once(args, f"e1b-{arm}-{args.updates}-{seed}", "e1b.csv", lambda s=seed, a=arm: unit(args, s, a))


if __name__ == "__main__":
    main()
