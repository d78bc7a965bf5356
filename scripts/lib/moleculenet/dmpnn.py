"""D-MPNN, a row of the paper's table 1, by the package chemprop and its defaults."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd

from fs_plugins.data.molecule_splits import PARTS
from fs_plugins.data.molecules import parse_molecule
from fs_plugins.data.property_info import PropertyInfo
from lib.command_line import UserError

CHEMPROP = [sys.executable, "-c", "from chemprop.cli.main import main; main()"]


def check_installed() -> None:
    """Raises UserError if chemprop is not installed."""
    if importlib.util.find_spec("chemprop") is None:
        raise UserError("D-MPNN needs the package chemprop: pip install '.[chemprop]'")


def _chemprop(*words) -> None:
    result = subprocess.run([*CHEMPROP, *map(str, words)], stdout=2)  # standard error
    if result.returncode:
        raise UserError(f"chemprop {words[0]} ended with exit status {result.returncode}, see above")


def _is_read(smiles: str) -> bool:
    """Whether chemprop can read a molecule: it always applies RDKit's rules of valence."""
    try:
        parse_molecule(smiles)
    except ValueError:
        return False
    return True


def fit_and_predict(
    smiles: dict[str, list[str]],
    labels: dict[str, np.ndarray],
    info: PropertyInfo,
    seed: int,
    epochs: int,
    device: str,
) -> tuple[dict[str, np.ndarray], dict[str, list[str]]]:
    """One model for all properties, of the epoch that was best on "valid".

    Args:
        smiles, labels: of "train" and of each split; labels [N, properties], NaN where one is missing.
        device: lightning's, such as "cpu" or "auto".

    Returns:
        [N, properties] predictions of each split, probabilities of class 1 or values; and of "train" and
        each split the molecules that chemprop cannot read, which are left out of the training, and predicted
        as the mean of the training labels.

    Raises:
        UserError: if chemprop fails; the reason is in its output.
    """
    kept = {split: np.array(list(map(_is_read, found)), bool) for split, found in smiles.items()}
    mean = np.ma.masked_invalid(labels["train"]).mean(axis=0).filled(0.5)
    common = ["--accelerator", device, "--devices", 1, "--num-workers", 0, "--smiles-columns", "smiles"]
    predictions = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tables = {split: folder / f"{split}.csv" for split in smiles}
        for split, path in tables.items():  # an empty cell is a missing label
            frame = pd.DataFrame(labels[split], columns=info.names)
            frame.insert(0, "smiles", smiles[split])
            frame[kept[split]].to_csv(path, index=False, float_format="%.9g")
        _chemprop("train", "--data-path", *(tables[split] for split in PARTS), "-t", info.kind,
                  *common, "--output-dir", folder / "model", "--epochs", epochs,
                  "--pytorch-seed", seed, "--data-seed", seed)  # fmt: skip
        model = folder / "model" / "model_0" / "best.pt"
        for split in smiles.keys() - {"train"}:
            asked, answered = folder / f"{split}.asked.csv", folder / f"{split}.answered.csv"
            pd.read_csv(tables[split], usecols=["smiles"]).to_csv(asked, index=False)  # without the labels
            files = ("--test-path", asked, "--model-paths", model, "--preds-path", answered)
            _chemprop("predict", *files, *common)
            predictions[split] = np.tile(mean, (len(kept[split]), 1))
            predictions[split][kept[split]] = pd.read_csv(answered)[list(info.names)].to_numpy(float)
    unread = {split: list(np.array(found)[~kept[split]]) for split, found in smiles.items()}
    return predictions, unread
