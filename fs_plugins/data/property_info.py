"""What is predicted of molecules: names, kind and scale of the properties; ``molecules.json`` of a folder."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

FILE = "molecules.json"
VERSION = 1
KINDS = ("classification", "regression")


@dataclass(frozen=True)
class PropertyInfo:
    """The properties that one model predicts.

    Attributes:
        kind: "classification" (each property is 0 or 1) or "regression".
        names: one for each output of the model.
        mean, std: of the training labels, one for each property; the outputs of a regression are
            (value - mean) / std. 0 and 1 for classification.
        canonical: whether SMILES are brought into RDKit's canonical form before they are tokenised.
        allow_valence: whether atoms may have more bonds than RDKit permits.
    """

    kind: str
    names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    canonical: bool = True
    allow_valence: bool = False

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"the kind of the properties is {self.kind!r}: known are {' and '.join(KINDS)}")
        if not self.names or len(set(self.names)) != len(self.names):
            raise ValueError(f"properties need one name each, got {list(self.names)}")
        if not len(self.names) == len(self.mean) == len(self.std):
            raise ValueError(f"{len(self.names)} properties, {len(self.mean)} means, {len(self.std)} stds")

    @property
    def regression(self) -> bool:
        return self.kind == "regression"

    def to_dict(self) -> dict:
        return asdict(self)

    @classmethod
    def from_dict(cls, state: dict) -> "PropertyInfo":
        """The inverse of ``to_dict``; other keys are left aside.

        Raises:
            ValueError: if one is missing or does not fit.
        """
        try:
            return cls(
                state["kind"],
                tuple(state["names"]),
                tuple(map(float, state["mean"])),
                tuple(map(float, state["std"])),
                bool(state["canonical"]),
                bool(state["allow_valence"]),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"not a description of properties: {error!r}") from error


def label_scale(labels: np.ndarray, kind: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and (population) standard deviation of each property over its labelled rows.

    Args:
        labels: [N, properties] float, NaN where there is no label.

    Returns:
        Means and standard deviations; 0 and 1 for classification and for a property without a label, and a
        standard deviation of 1 where all labels are the same.
    """
    properties = labels.shape[1]
    mean, std = [0.0] * properties, [1.0] * properties
    if kind == "regression":
        for i in range(properties):
            values = labels[~np.isnan(labels[:, i]), i].astype(np.float64)
            if len(values):
                mean[i] = float(values.mean())
                std[i] = float(values.std()) or 1.0
    return tuple(mean), tuple(std)


def read_folder(folder: str | Path) -> dict:
    """``molecules.json`` of a folder that scripts/prepare_moleculenet.py made.

    Raises:
        FileNotFoundError, ValueError: if it is not there, or not of this version.
    """
    path = Path(folder) / FILE
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: scripts/prepare_moleculenet.py makes such a folder")
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
        version = state["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is damaged ({error!r}): prepare the data again") from error
    if version != VERSION:
        raise ValueError(f"{path} is of version {version}, this reads {VERSION}: prepare the data again")
    return state


def fingerprint(symbols: Iterable[str]) -> str:
    """SHA-256 of a dictionary's symbols in their order, without <mask>, which the tasks add."""
    text = "\n".join(symbol for symbol in symbols if symbol != "<mask>")
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
