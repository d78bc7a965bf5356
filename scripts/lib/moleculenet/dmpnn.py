"""D-MPNN, a row of the paper's table 1, by the package chemprop and its defaults."""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
import tempfile
from itertools import compress
from pathlib import Path

import numpy as np

from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.property_info import PropertyInfo
from lib.command_line import UserError

CHEMPROP = [sys.executable, "-c", "from chemprop.cli.main import main; main()"]


def check_installed() -> None:
    """Raises UserError if chemprop is not installed."""
    if importlib.util.find_spec("chemprop") is None:
        raise UserError("D-MPNN needs the package chemprop: pip install '.[chemprop]'")


def _write(path: Path, smiles: list[str], info: PropertyInfo, labels: np.ndarray | None = None) -> None:
    """A table as chemprop reads it; an empty cell is a missing label."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["smiles", *(info.names if labels is not None else ())])
        for i, text in enumerate(smiles):
            found = () if labels is None else ("" if np.isnan(x) else f"{x:.9g}" for x in labels[i])
            writer.writerow([text, *found])


def _chemprop(*words: str | Path) -> None:
    result = subprocess.run([*CHEMPROP, *map(str, words)], stdout=2)  # standard error
    if result.returncode:
        raise UserError(f"chemprop {words[0]} ended with exit status {result.returncode}, see above")


def readable(smiles: list[str]) -> np.ndarray:
    """[N] bool, which molecules chemprop can read: it always applies RDKit's rules of valence."""

    def is_read(text: str) -> bool:
        try:
            parse_molecule(text)
        except ValueError:
            return False
        return True

    return np.array([is_read(text) for text in smiles], dtype=bool)


def fit_and_predict(
    smiles: dict[str, list[str]],
    labels: dict[str, np.ndarray],
    kept: dict[str, np.ndarray],
    info: PropertyInfo,
    seed: int,
    epochs: int,
    device: str,
) -> dict[str, np.ndarray]:
    """[N, properties] predictions of each split: probabilities of class 1, or values.

    One model for all properties, of the epoch that was best on "valid". Molecules that are not kept are left
    out of the training, and predicted as the mean of the training labels.

    Args:
        smiles, labels, kept: of "train" and of each split; labels [N, properties], NaN where one is missing;
            kept [N], see :func:`readable`.
        device: lightning's, such as "cpu" or "auto".

    Raises:
        UserError: if chemprop fails; the reason is in its output.
    """
    predictions, mean = {}, np.ma.masked_invalid(labels["train"]).mean(axis=0).filled(0.5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {split: folder / f"{split}.csv" for split in smiles}
        smiles = {split: list(compress(found, kept[split])) for split, found in smiles.items()}
        for split, table in tables.items():
            _write(table, smiles[split], info, labels[split][kept[split]])
        kind = "regression" if info.regression else "classification"
        trained = ["--data-path", tables["train"], tables["valid"], tables["test"], "-t", kind]
        common = [
            "--accelerator",
            device,
            "--devices",
            "1",
            "--num-workers",
            "0",
            "--smiles-columns",
            "smiles",
        ]
        _chemprop("train", *trained, *common, "--output-dir", folder / "model", "--epochs", str(epochs),
                  "--pytorch-seed", str(seed), "--data-seed", str(seed))  # fmt: skip
        model = folder / "model" / "model_0" / "best.pt"
        for split in smiles.keys() - {"train"}:
            asked, answered = folder / f"{split}.asked.csv", folder / f"{split}.answered.csv"
            _write(asked, smiles[split], info)
            _chemprop(
                "predict", "--test-path", asked, "--model-paths", model, "--preds-path", answered, *common
            )
            with answered.open(encoding="utf-8", newline="") as file:
                rows = list(csv.DictReader(file))
            predictions[split] = np.tile(mean, (len(kept[split]), 1))
            predictions[split][kept[split]] = [[float(row[name]) for name in info.names] for row in rows]
    return predictions
