"""The files that prepare_moleculenet.py writes: ``molecules.json``, and the labels of each split, with their
scale."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from fairseq.data import RawLabelDataset
from torch import Tensor

from fs_plugins.files import naming_errors

MOLECULES_FILE = "molecules.json"


def label_scale(labels: np.ndarray, kind: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Returns the mean and (population) standard deviation of each property over its labelled rows; labels
    are [N, properties], NaN where there is none. They are 0 and 1 for classification and for a property
    without a label, and a standard deviation is 1 where all labels are the same."""
    if kind != "regression":
        return (0.0,) * labels.shape[1], (1.0,) * labels.shape[1]
    known = np.ma.masked_invalid(labels.astype(np.float64))
    mean, std = known.mean(0).filled(0.0), known.std(0).filled(1.0)
    same = (known.max(0) == known.min(0)).filled(True)  # a spread by rounding is none
    return tuple(mean.tolist()), tuple(np.where(same, 1.0, std).tolist())


def read_folder(folder: str | Path) -> dict:
    """Returns ``molecules.json`` of a folder that scripts/prepare_moleculenet.py made."""
    path = Path(folder) / MOLECULES_FILE
    with naming_errors(path):
        return json.loads(path.read_text(encoding="utf-8"))


def read_labels(path: str | Path, rows: int, columns: int) -> np.ndarray:
    """Returns the labels of a .npy file, [rows, columns] float64. Raises ValueError for those of other
    molecules."""
    with naming_errors(path):
        labels = np.load(path, allow_pickle=False)
    if labels.shape != (rows, columns):
        raise ValueError(
            f"{path} has labels of shape {labels.shape}, the split {rows} molecules with {columns} "
            "properties: prepare the data again"
        )
    return labels.astype(np.float64)


def labels_by_name(labels: np.ndarray, given: Sequence[str], wanted: Sequence[str]) -> np.ndarray:
    """Returns columns of labels [rows, len(given)] in the order of ``wanted``; NaN for one that is not
    ``given``. Raises ValueError if none is."""
    if not {*given} & {*wanted}:
        raise ValueError(f"the data have the properties {', '.join(given)}, the model {', '.join(wanted)}")
    missing = np.full((len(labels), 1), np.nan)
    at = [given.index(name) if name in given else len(given) for name in wanted]
    return np.hstack([labels, missing])[:, at]


class LabelsDataset(RawLabelDataset):
    """Rows of labels: batches [B, properties], float64 with NaN where one is missing. In float32 they would
    be rounded with the rest of the batch by fairseq's ``--fp16`` and ``--bf16``."""

    def collater(self, samples: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(samples).astype(np.float64))
