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
from lib.moleculenet.evaluate import Split

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
    splits: dict[str, Split], info: PropertyInfo, seed: int, epochs: int, device: str
) -> tuple[dict[str, np.ndarray], dict[str, int]]:
    """One model for all properties, of the epoch that was best on "valid".

    Args:
        device: lightning's, such as "cpu" or "auto".

    Returns:
        [N, properties] predictions of each split but "train", probabilities of class 1 or values; and how
        many molecules of each split chemprop cannot read: these are left out of the training, and predicted
        as the mean of the training labels.

    Raises:
        UserError: if chemprop fails; the reason is in its output.
    """
    kept = {name: np.array(list(map(_is_read, split.smiles)), bool) for name, split in splits.items()}
    mean = np.ma.masked_invalid(splits["train"].labels).mean(axis=0).filled(0.5)
    common = ["--accelerator", device, "--devices", 1, "--num-workers", 0, "--smiles-columns", "smiles"]
    predictions = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        tables = {name: folder / f"{name}.csv" for name in splits}
        for name, split in splits.items():  # an empty cell is a missing label
            frame = pd.DataFrame(split.labels, columns=info.names)
            frame.insert(0, "smiles", split.smiles)
            frame[kept[name]].to_csv(tables[name], index=False, float_format="%.9g")
            if unread := frame["smiles"][~kept[name]].tolist():
                done = "left out" if name == "train" else "predicted as the mean of the training labels"
                some = f"{len(unread)} of {len(frame)} molecules, such as {unread[0]}"
                print(f"{name}: chemprop cannot read {some}: {done}")
        _chemprop("train", "--data-path", *(tables[name] for name in PARTS), "-t", info.kind,
                  *common, "--output-dir", folder / "model", "--epochs", epochs,
                  "--pytorch-seed", seed, "--data-seed", seed)  # fmt: skip
        model = folder / "model" / "model_0" / "best.pt"
        for name in splits.keys() - {"train"}:
            asked, answered = folder / f"{name}.asked.csv", folder / f"{name}.answered.csv"
            pd.read_csv(tables[name], usecols=["smiles"]).to_csv(asked, index=False)  # without the labels
            files = ("--test-path", asked, "--model-paths", model, "--preds-path", answered)
            _chemprop("predict", *files, *common)
            predictions[name] = np.tile(mean, (len(kept[name]), 1))
            predictions[name][kept[name]] = pd.read_csv(answered)[list(info.names)].to_numpy(float)
    return predictions, {name: int((~read).sum()) for name, read in kept.items()}
