"""D-MPNN, a row of the paper's table 1, by the package chemprop and its defaults."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from itertools import compress
from pathlib import Path

import numpy as np

from fs_plugins.data.molecule_splits import PARTS
from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.property_info import PropertyInfo
from lib.command_line import UserError

CHEMPROP = [sys.executable, "-c", "from chemprop.cli.main import main; main()"]


def check_installed() -> None:
    """Raises UserError if chemprop is not installed."""
    if importlib.util.find_spec("chemprop") is None:
        raise UserError("D-MPNN needs the package chemprop: pip install '.[chemprop]'")


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
    import pandas as pd  # of chemprop

    predictions, mean = {}, np.ma.masked_invalid(labels["train"]).mean(axis=0).filled(0.5)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {}
        for split, strings in smiles.items():
            frame = pd.DataFrame(labels[split][kept[split]], columns=info.names)
            frame.insert(0, "smiles", list(compress(strings, kept[split])))
            tables[split] = folder / f"{split}.csv"
            frame.to_csv(tables[split], index=False, float_format="%.9g")  # an empty cell is a missing label
        kind = "regression" if info.regression else "classification"
        common = ["--accelerator", device, "--devices", 1, "--num-workers", 0, "--smiles-columns", "smiles"]
        _chemprop("train", "--data-path", *(tables[split] for split in PARTS), "-t", kind,
                  *common, "--output-dir", folder / "model", "--epochs", epochs,
                  "--pytorch-seed", seed, "--data-seed", seed)  # fmt: skip
        model = folder / "model" / "model_0" / "best.pt"
        for split in smiles.keys() - {"train"}:
            asked, answered = folder / f"{split}.asked.csv", folder / f"{split}.answered.csv"
            pd.read_csv(tables[split], usecols=["smiles"]).to_csv(asked, index=False)  # without the labels
            _chemprop(
                "predict", "--test-path", asked, "--model-paths", model, "--preds-path", answered, *common
            )
            predictions[split] = np.tile(mean, (len(kept[split]), 1))
            predictions[split][kept[split]] = pd.read_csv(answered)[list(info.names)].to_numpy(float)
    return predictions
