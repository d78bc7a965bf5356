"""Labels of molecules as a fairseq dataset."""

from pathlib import Path

import numpy as np
import torch
from fairseq.data import FairseqDataset
from torch import Tensor


class LabelsDataset(FairseqDataset):
    """Rows of labels: items [properties], batches [B, properties], float64 with NaN where one is missing.

    In float32 they would be rounded with the rest of the batch by fairseq's ``--fp16`` and ``--bf16``.
    """

    def __init__(self, labels: np.ndarray):
        super().__init__()
        self.labels = torch.from_numpy(np.ascontiguousarray(labels, dtype=np.float64))

    def __getitem__(self, index: int) -> Tensor:
        return self.labels[index]

    def __len__(self) -> int:
        return len(self.labels)

    def collater(self, samples: list[Tensor]) -> Tensor:
        return torch.stack(samples)


def read_labels(path: str | Path, rows: int, properties: int, classification: bool) -> np.ndarray:
    """[rows, properties] float32 of a .npy file.

    Raises:
        FileNotFoundError, ValueError: if there is no such file, it is damaged, or its contents don't fit.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: prepare the data again")
    try:
        labels = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}): prepare the data again") from error
    if labels.shape != (rows, properties):
        raise ValueError(
            f"{path} has labels of shape {labels.shape}, the split {rows} molecules with {properties} "
            "properties: prepare the data again"
        )
    labels = labels.astype(np.float32)
    known = labels[~np.isnan(labels)]
    if not np.isfinite(known).all() or (classification and not np.isin(known, (0, 1)).all()):
        wrong = known[~np.isfinite(known)] if not classification else known[~np.isin(known, (0, 1))]
        raise ValueError(
            f"{path} has the label {wrong[0]:g}: "
            + ("a class is 0, 1 or NaN" if classification else "a value has to be finite, or NaN")
        )
    return labels


def one_class_only(labels: np.ndarray) -> np.ndarray:
    """[properties] bool: whose labels [N, properties] are not both 0 and 1, so that it has no ROC-AUC."""
    return ~((labels == 0).any(0) & (labels == 1).any(0))


class SplitSizeDataset(FairseqDataset):
    """The number of rows of the split, in every batch."""

    def __init__(self, rows: int):
        super().__init__()
        self.rows = rows

    def __getitem__(self, index: int) -> int:
        return self.rows

    def __len__(self) -> int:
        return self.rows

    def collater(self, samples: list[int]) -> int:
        return self.rows
