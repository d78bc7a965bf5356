"""What is predicted of molecules: names, kind, scale and labels of the properties; ``molecules.json``."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from fairseq.data import RawLabelDataset
from torch import Tensor

from fs_plugins.files import reading
from fs_plugins.finetuning.outputs import CLASSES, FIELDS, LABELS, REGRESSION, Outputs

FILE = "molecules.json"
KINDS = {"classification": LABELS, "regression": REGRESSION, "multiclass": CLASSES}


@dataclass(frozen=True)
class PropertyInfo:
    """The properties that one model predicts. Raises ValueError if these do not fit each other."""

    # "classification" (each property is 0 or 1), "regression", or "multiclass" (one property with classes)
    kind: str
    names: tuple[str, ...]  # one for each column of labels
    # mean, std: of the training labels, one for each property; the outputs of a regression are (value - mean)
    # / std. 0 and 1 for classification.
    mean: tuple[float, ...]
    std: tuple[float, ...]
    canonical: bool = True  # whether SMILES are brought into RDKit's canonical form before they are tokenised
    allow_valence: bool = False  # whether atoms may have more bonds than RDKit permits
    classes: tuple[str, ...] = ()  # of "multiclass": their names, one for each output; labels are 0, 1, ...

    def __post_init__(self):
        fits = len(self.names) == len(self.mean) == len(self.std) > 0 and all(std > 0 for std in self.std)
        if self.kind == "multiclass" and len(self.names) > 1:
            raise ValueError(
                f"classes are of one property, not {len(self.names)}: choose one of {self.names}"
            )
        if not fits or self.kind not in KINDS or (self.kind == "multiclass") != bool(self.classes):
            raise ValueError(f"the properties do not fit each other: {self!r:.500}")

    @property
    def regression(self) -> bool:
        return self.kind == "regression"

    @property
    def outputs(self) -> Outputs:
        scale = (self.mean, self.std) if self.regression else ()
        return Outputs(KINDS[self.kind], self.classes or self.names, *scale)

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict) -> "PropertyInfo":
        """Returns the inverse of ``to_dict``; other keys are left aside. Raises ValueError for a missing
        value or one of another type, and as the class does."""
        with reading("the properties' description"):
            lists = {name: tuple(map(kind, state[name])) for name, kind in FIELDS.items()}
            read = {name: bool(state[name]) for name in ("canonical", "allow_valence")}
            return cls(state["kind"], **lists, **read, classes=tuple(map(str, state.get("classes") or ())))


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
    path = Path(folder) / FILE
    with reading(path):
        return json.loads(path.read_text(encoding="utf-8"))


def read_labels(path: str | Path, rows: int, columns: int) -> np.ndarray:
    """Returns the labels of a .npy file, [rows, columns] float64. Raises ValueError for those of other
    molecules."""
    with reading(path):
        labels = np.load(path, allow_pickle=False)
    if labels.shape != (rows, columns):
        raise ValueError(
            f"{path} has labels of shape {labels.shape}, the split {rows} molecules with {columns} "
            "properties: prepare the data again"
        )
    return labels.astype(np.float64)


def one_class_only(labels: np.ndarray) -> np.ndarray:
    """Returns [properties] bool: whose labels [N, properties] are not both 0 and 1, so that it has no
    ROC-AUC."""
    return ~((labels == 0).any(0) & (labels == 1).any(0))


class LabelsDataset(RawLabelDataset):
    """Rows of labels: batches [B, properties], float64 with NaN where one is missing. In float32 they would
    be rounded with the rest of the batch by fairseq's ``--fp16`` and ``--bf16``."""

    def collater(self, samples: list[np.ndarray]) -> Tensor:
        return torch.from_numpy(np.stack(samples).astype(np.float64))
