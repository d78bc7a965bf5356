"""Runs the experiments of plan.md, a unit (one pre-training and its scores) after the other.

    python docs/results/claims.py corruption data-bin/druglike moses_test.txt.gz runs/claims
    python docs/results/claims.py finetuning data-bin/druglike moses_test.txt.gz runs/claims --seeds 1 2

Rows are appended to corruption.csv or finetuned_claims.csv beside this file when a unit is done; units that
have their row are skipped, interrupted trainings resumed. Several calls may share the work: each unit is
locked.
"""

import argparse
import csv
import fcntl
import functools
import gzip
import itertools
import json
import os
import random
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np

from fs_plugins.data.smiles_tokens import tokenize

ROOT = Path(__file__).resolve().parents[2]
COMMON = ["--max-tokens", 2048, "--embedding-init-std", 0.1, "--dropout", 0.1, "--attention-dropout", 0.1]
COMMON += ["--cpu", "--log-interval", 100, "--validate-interval-updates", 1000]
UNTRAINED = ["--lr", 1e-12, "--updates", 1]
CELLS = [(1, 0.15), (2, 0.387), (4, 0.622), (1, 0.622), (2, 0.622), (1, None), (4, None)]
PROPERTIES = ("logP", "QED", "TPSA")
TRAIN = 5_000  # molecules that regressions are fitted to
DESCRIPTORS = [
    "MolLogP",
    "TPSA",
    "qed",
    "MolWt",
    "MolMR",
    "FractionCSP3",
    "NumHDonors",
    "NumHAcceptors",
    "NumRotatableBonds",
    "RingCount",
    "NumAromaticRings",
    "NumAliphaticRings",
    "HeavyAtomCount",
    "NumHeteroatoms",
    "BertzCT",
    "BalabanJ",
    "LabuteASA",
    "HallKierAlpha",
    "Chi1v",
    "Kappa2",
]
CORRUPTION = ["k", "p", "seed", "updates", "rate", "valid_bits", "r2", "r2_beyond_counts"]
CORRUPTION += [*DESCRIPTORS, "seconds", "commit"]
# of the measures `states` and `entropy`: bits of the posterior over a mask's states, ... of its token
STATES = {
    "states": ("posterior_entropy", "divergence", "second_state"),
    "entropy": ("entropy", "entropy_posterior"),
}
FINETUNED = ["arm", "rate", "seed", "updates", "valid_bits", "ft_seed", *PROPERTIES, "r2_beyond_counts"]
FINETUNED += [*STATES["states"], *STATES["entropy"], "seconds", "commit"]


def run(*words: object) -> None:
    """Runs a command of this clone with one thread; its failure ends this script."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "EXLM_PYTHON": sys.executable}
    environment["PYTHONPATH"] = f"{ROOT}:{ROOT / 'scripts'}"
    subprocess.run([str(word) for word in words], check=True, cwd=ROOT, env=environment, stdout=sys.stderr)


def pretrain(save: Path, data: Path, model: str, *flags: object) -> tuple[Path, float, float]:
    """Returns (checkpoint, last validation loss in bits, processor seconds) of a pre-training."""
    last, note = save / "checkpoint_last.pt", save / "seconds.json"
    spent = (json.loads(note.read_text()) if note.exists() else 0) - seconds()
    try:
        run("bash", "scripts/pretrain_smiles.sh", model, "small", data, save, *COMMON, *flags)
    finally:  # an interrupted call has spent them too
        spent += seconds()
        save.mkdir(parents=True, exist_ok=True)
        note.write_text(json.dumps(spent))
    return last, last_value((save / "train.log").read_text(), "valid_loss"), spent


def last_value(log: str, name: str) -> float:
    """Returns the last value of a name in the JSON lines of a log."""
    lines = [line[line.index("{") :] for line in log.splitlines() if f'"{name}"' in line]
    return float(json.loads(lines[-1])[name])


def seconds() -> float:
    """Returns the processor time of all commands so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def commit() -> str:
    return subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


def molecules(source: Path, work: Path) -> Path:
    """Returns a file of 25,000 molecules of MOSES's test set, in random order, which it makes once."""
    path = work / "molecules.txt"
    if not path.exists():
        with gzip.open(source, "rt") as file:
            chosen = random.Random(1).sample(file.read().split(), 25_000)
        path.write_text("\n".join(chosen) + "\n")
    return path


def descriptors(path: Path) -> np.ndarray:
    """Returns [molecules, 20] descriptors, from a file beside the molecules."""
    table = path.with_suffix(".descriptors.npy")
    if not table.exists():
        from rdkit import Chem
        from rdkit.Chem import Descriptors

        functions = dict(Descriptors.descList)
        rows = [
            [functions[name](mol) for name in DESCRIPTORS] for mol in map(Chem.MolFromSmiles, path.open())
        ]
        np.save(table, np.array(rows))
    return np.load(table)


def ridge(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns predictions of each column of targets, by a ridge regression that is fitted, like its penalty,
    to the first TRAIN rows."""
    from sklearn.linear_model import RidgeCV
    from sklearn.preprocessing import StandardScaler

    x = StandardScaler().fit(features[:TRAIN]).transform(features)
    models = (RidgeCV(np.logspace(-2, 4, 13)).fit(x[:TRAIN], y[:TRAIN]) for y in targets.T)
    return np.stack([model.predict(x) for model in models], axis=1)


def ridge_scores(features: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Returns R^2 of each column of targets, on the rows that the regression was not fitted to."""
    from sklearn.metrics import r2_score

    predicted = ridge(features, targets)
    return r2_score(targets[TRAIN:], predicted[TRAIN:], multioutput="raw_values")


def counts(smiles: Path) -> np.ndarray:
    """Returns how often each token is in each molecule, [molecules, tokens]."""
    from sklearn.feature_extraction.text import CountVectorizer

    bag = CountVectorizer(analyzer=lambda line: tokenize(line.strip()))
    return bag.fit_transform(smiles.open()).toarray().astype(float)


@functools.cache
def beyond_counts(smiles: Path) -> np.ndarray:
    """Returns what a regression on counts of tokens leaves of each descriptor, [molecules, 20]."""
    return descriptors(smiles) - ridge(counts(smiles), descriptors(smiles))


def embedding_scores(checkpoint: Path, smiles: Path, output: Path) -> tuple[np.ndarray, np.ndarray]:
    """Returns R^2 of each descriptor, and of what a regression on counts of tokens leaves of it, from the
    embeddings of a model."""
    if not output.exists():
        words = ("embed", checkpoint, smiles, "--pooling", "mean", "--output", output, "--device", "cpu")
        run(sys.executable, "scripts/molecules.py", *words)
    vectors = np.load(output)
    return ridge_scores(vectors, descriptors(smiles)), ridge_scores(vectors, beyond_counts(smiles))


def corruption(args: argparse.Namespace, seed: int, cell: tuple[int, float | None]) -> list[dict]:
    """One cell of E2."""
    (k, p), smiles = cell, molecules(args.molecules, args.work)
    save = args.work / "corruption" / f"k{k}-p{p or 0}-s{seed}"
    flags = ["--k", k, "--p", p or 0.15, "--seed", seed]
    flags += ["--lr", 2e-3, "--updates", 1000, "--warmup-updates", 100] if p else UNTRAINED
    checkpoint, bits, spent = pretrain(save, args.data, "repeated-mlm", *flags)
    scores, beyond = embedding_scores(checkpoint, smiles, save / "vectors.npy")
    row = {"k": k, "p": p or "", "seed": seed, "updates": 1000 if p else 0, "rate": 2e-3 if p else ""}
    row |= {"valid_bits": bits, "r2": scores.mean(), "r2_beyond_counts": beyond.mean()}
    row |= {"seconds": round(spent), "commit": args.commit}
    return [row | dict(zip(DESCRIPTORS, scores, strict=True))]


ARMS = {"mlm": ("mlm", 4000), "exlm": ("exlm", 4000), "mlm-longer": ("mlm", 5000)}
ARMS |= {"mlm-untrained": ("mlm", 0), "exlm-untrained": ("exlm", 0)}


def finetuning(args: argparse.Namespace, seed: int, arm: str) -> list[dict]:
    """One arm of E1: its pre-training and, but for seed 0, which chooses the rate, its fine-tunings."""
    (model, updates), arm, rate = ARMS[arm.partition("@")[0]], *arm.split("@")
    save, smiles = args.work / "finetuning" / f"{arm}-{rate}-s{seed}", molecules(args.molecules, args.work)
    updates = updates if seed else min(updates, 1000)
    flags = ["--p", 0.15, "--seed", seed, *(["--k", 2] if model == "exlm" else [])]
    trained = ["--lr", rate, "--updates", updates, "--warmup-updates", updates // 10]
    flags += trained if updates else UNTRAINED
    checkpoint, bits, spent = pretrain(save, args.data, model, *flags)
    about = {"arm": arm, "rate": rate, "seed": seed, "updates": updates, "valid_bits": bits}
    about |= {"seconds": round(spent), "commit": args.commit}
    if seed == 0:
        return [about]
    _, beyond = embedding_scores(checkpoint, smiles, save / "vectors.npy")
    about["r2_beyond_counts"] = beyond.mean()
    if arm == "exlm":
        about |= use_of_states(checkpoint, save)
    rows = []
    for ft_seed in (1, 2):
        row = about | {"ft_seed": ft_seed}
        for name in PROPERTIES:
            data, result = prepared(args, smiles, name), save / f"{name}-{ft_seed}"
            flags = ("--max-epoch", 8, "--lr", 5e-4, "--batch-size", 32, "--seed", ft_seed, "--cpu")
            run("bash", "scripts/finetune_moleculenet.sh", name, checkpoint, data, result, *flags)
            row[name] = json.loads((result / "result.json").read_text())["metrics"]["test"]["rmse"]
            (result / "checkpoint_best.pt").unlink(missing_ok=True)
        rows.append(row)
    return rows


def use_of_states(checkpoint: Path, save: Path) -> dict:
    """Returns the use of states of an ExLM, and its entropy by both means."""
    numbers = {}
    for measure, count in (("states", 500), ("entropy", 2000)):
        output = save / f"{measure}.json"
        if not output.exists():
            words = (measure, checkpoint, "--max-sentences", count, "--output", output, "--device", "cpu")
            run(sys.executable, "-m", "fs_plugins.measures", *words)
        [result] = json.loads(output.read_text())["rows"][0]["results"]
        numbers |= {name: mean["mean"] for name, mean in result.items() if name in STATES[measure]}
    return numbers


def prepared(args: argparse.Namespace, smiles: Path, name: str) -> Path:
    """Returns the folder of the data of a property: 2,000 molecules to train on, 500 and 10,000."""
    folder, table = args.work / f"data-{name}", args.work / f"{name}.csv"
    if not (folder / "molecules.json").exists():
        column = {"logP": "MolLogP", "QED": "qed", "TPSA": "TPSA"}[name]
        values = descriptors(smiles)[:12_500, DESCRIPTORS.index(column)]
        splits = ["train"] * 2000 + ["valid"] * 500 + ["test"] * 10_000
        lines = [f"{s.strip()},{v:.6g},{w}" for s, v, w in zip(smiles.open(), values, splits, strict=False)]
        table.write_text("\n".join([f"smiles,{name},split", *lines]) + "\n")
        words = (
            name,
            table,
            folder,
            "--dictionary",
            args.data,
            "--kind",
            "regression",
            "--label-columns",
            name,
        )
        run(
            sys.executable,
            "scripts/prepare_moleculenet.py",
            *words,
            "--split",
            "given",
            "--split-column",
            "split",
        )
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("experiment", choices=("corruption", "finetuning"))
    parser.add_argument("data", type=Path, help="folder of the drug-like mix")
    parser.add_argument("molecules", type=Path, help="moses_test.txt.gz")
    parser.add_argument("work", type=Path, help="folder for checkpoints")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--arms", nargs="+", default=["mlm@2e-3"], help="of finetuning: ARM@RATE")
    args = parser.parse_args()
    args.work, args.data, args.molecules = args.work.resolve(), args.data.resolve(), args.molecules.resolve()
    args.work.mkdir(parents=True, exist_ok=True)
    args.commit = commit()
    function, units, name, columns = (
        (corruption, CELLS, "corruption.csv", CORRUPTION)
        if args.experiment == "corruption"
        else (finetuning, args.arms, "finetuned_claims.csv", FINETUNED)
    )
    for seed, unit in itertools.product(args.seeds, units):
        done = args.work / f"{args.experiment}-{seed}-{unit}.json".replace(" ", "").replace("/", "")
        with open(done, "a+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue  # another call has it
            if done.stat().st_size:
                continue
            rows = function(args, seed, unit)
            with open(Path(__file__).with_name(name), "a", newline="") as file:
                writer = csv.DictWriter(file, columns, lineterminator="\n")
                if not file.tell():
                    writer.writeheader()
                writer.writerows(rows)
            lock.write(json.dumps(rows))


if __name__ == "__main__":
    main()
