"""What is predicted of molecules: names, kind, scale and labels of the properties; ``molecules.json``."""

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq.data import RawLabelDataset
from torch import Tensor

FILE = "molecules.json"
VERSION = 1


@dataclass(frozen=True)
class PropertyInfo:
    """The properties that one model predicts.

    Raises:
        ValueError: for anything else.
    """

    kind: str  # "classification" (each property is 0 or 1) or "regression"
    names: tuple[str, ...]  # one for each output of the model
    # mean, std: of the training labels, one for each property; the outputs of a regression are (value - mean)
    # / std. 0 and 1 for classification.
    mean: tuple[float, ...]
    std: tuple[float, ...]
    canonical: bool = True  # whether SMILES are brought into RDKit's canonical form before they are tokenised
    allow_valence: bool = False  # whether atoms may have more bonds than RDKit permits

    def __post_init__(self):
        count = len(self.names)
        for name, fits in {
            "kind": self.kind in ("classification", "regression"),
            "names": count and all(isinstance(one, str) for one in self.names),
            "mean": len(self.mean) == count and all(map(_is_finite, self.mean)),
            "std": len(self.std) == count and all(_is_finite(one) and one > 0 for one in self.std),
            "canonical": isinstance(self.canonical, bool),
            "allow_valence": isinstance(self.allow_valence, bool),
        }.items():
            if not fits:
                raise ValueError(f"{name} of the properties is {getattr(self, name)!r:.200}")

    @property
    def regression(self) -> bool:
        return self.kind == "regression"

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict) -> "PropertyInfo":
        """The inverse of ``to_dict``; other keys are left aside. Raises ValueError as does the class."""
        try:
            lists = {name: tuple(state[name]) for name in ("names", "mean", "std")}
            rest = {name: state[name] for name in ("kind", "canonical", "allow_valence")}
        except (LookupError, TypeError) as error:
            raise ValueError(f"the properties are not described as they must be: {error!r:.200}") from error
        return cls(**rest, **lists)


def _is_finite(value) -> bool:
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def label_scale(labels: np.ndarray, kind: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and (population) standard deviation of each property over its labelled rows.

    Args:
        labels: [N, properties] float, NaN where there is no label.

    Returns:
        Means and standard deviations; 0 and 1 for classification and for a property without a label, and a
        standard deviation of 1 where all labels are the same.
    """
    if kind == "classification":
        return (0.0,) * labels.shape[1], (1.0,) * labels.shape[1]
    known = np.ma.masked_invalid(labels.astype(np.float64))
    mean, std = known.mean(0).filled(0.0), known.std(0).filled(1.0)
    return tuple(mean.tolist()), tuple(np.where(std == 0, 1.0, std).tolist())


def read_folder(folder: str | Path) -> dict:
    """``molecules.json`` of a folder that scripts/prepare_moleculenet.py made. Raises FileNotFoundError or
    ValueError if it does not exist, or is not of this version."""
    path = Path(folder) / FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: scripts/prepare_moleculenet.py makes such a folder")
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        version = state.get("version")
    except (ValueError, AttributeError) as error:
        raise ValueError(f"{path} is damaged ({error}): prepare the data again") from error
    if version != VERSION:
        raise ValueError(f"{path} is of version {version}, this reads {VERSION}: prepare the data again")
    return state


def read_labels(path: str | Path, rows: int, properties: int) -> np.ndarray:
    """[rows, properties] float32 of a .npy file. Raises FileNotFoundError or ValueError if there is no such
    file, it is damaged, or of other molecules."""
    try:
        labels = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} is damaged ({error}): prepare the data again") from error
    if labels.shape != (rows, properties):
        raise ValueError(
            f"{path} has labels of shape {labels.shape}, the split {rows} molecules with {properties} "
            "properties: prepare the data again"
        )
    return labels.astype(np.float32)


def one_class_only(labels: np.ndarray) -> np.ndarray:
    """[properties] bool: whose labels [N, properties] are not both 0 and 1, so that it has no ROC-AUC."""
    return ~((labels == 0).any(0) & (labels == 1).any(0))


class LabelsDataset(RawLabelDataset):
    """Rows of labels: batches [B, properties], float64 with NaN where one is missing. In float32 they would
    be rounded with the rest of the batch by fairseq's ``--fp16`` and ``--bf16``."""

    def collater(self, samples: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(samples).astype(np.float64))
