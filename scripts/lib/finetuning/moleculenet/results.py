"""What is written of predictions on molecules, by a fine-tuned model or a baseline."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Self

import numpy as np
import pandas as pd
import torch
from lib.files import DIGITS, digits, plain_cell, write_result

from fs_plugins.files import atomic
from fs_plugins.finetuning.moleculenet.data import read_folder
from fs_plugins.finetuning.moleculenet.metrics import by_property, metrics_of, summarise
from fs_plugins.finetuning.outputs import PropertyInfo

SPLITS, PICTURE = ("valid", "test"), ".predictions.png"
MOST, COLUMNS, INCHES = 9, 3, 3.2  # properties in a picture, and in a row of it; the size of each
RIGHT = "0.6"  # the colour of the line on which predictions are right


@dataclass
class LabelledSplit:
    """The lines in the source and the SMILES of N molecules, and their labels [N, properties]."""

    lines: list[str]
    smiles: list[str]
    labels: np.ndarray

    @classmethod
    def read(cls, data: Path, split: str) -> Self:
        text = (data / f"{split}.tsv").read_text(encoding="utf-8")
        lines, smiles = zip(*(row.split("\t") for row in text.splitlines()[1:]), strict=True)
        return cls(list(lines), list(smiles), np.load(data / f"{split}.labels.npy"))

    @property
    def sha256(self) -> str:
        """Returns a hash of lines and labels: equal for results that can be compared."""
        digest = hashlib.sha256("\n".join(self.lines).encode())
        digest.update(self.labels.astype("<f8").tobytes())
        return digest.hexdigest()


def write_predictions(path: Path, split: LabelledSplit, shown: np.ndarray, info: PropertyInfo) -> None:
    """Writes a row for each molecule; an empty cell is a missing label."""
    outputs = zip(info.outputs.names, shown.T, strict=True)
    labels = zip((f"{name} (label)" for name in info.names), split.labels.T, strict=True)
    # each label beside its prediction, but that of classes behind those of all
    by_classes = info.kind == "multiclass"
    columns = [*outputs, *labels] if by_classes else chain(*zip(outputs, labels, strict=True))
    # a property may have the name of a column too
    header, values = zip(("line", split.lines), ("smiles", split.smiles), *columns, strict=True)
    header = [*map(plain_cell, header)]
    with atomic(path) as file:
        table = pd.DataFrame(dict(enumerate(values)))
        table.to_csv(file, index=False, header=header, float_format=f"%.{DIGITS}g")


def truth_against_prediction(
    names: Sequence[str], labels: np.ndarray, predictions: np.ndarray, about: str
) -> "Figure":  # noqa: F821
    """Returns a picture with a square for each of the first properties, of labels [N, properties], NaN where
    there is none, and predictions [N, properties]."""
    from matplotlib.figure import Figure  # here, as it logs to the terminal while fairseq is imported

    shown = [i for i in range(len(names)) if not np.isnan(labels[:, i]).all()][:MOST]
    columns = min(len(shown), COLUMNS) or 1
    rows = max(1, -(-len(shown) // columns))
    figure = Figure((INCHES * columns, INCHES * rows), layout="constrained", label=about)
    for place, i in enumerate(shown, start=1):
        truth, found = labels[~np.isnan(labels[:, i]), i], predictions[~np.isnan(labels[:, i]), i]
        axes = figure.add_subplot(rows, columns, place)
        axes.axline((truth[0], truth[0]), slope=1, color=RIGHT, lw=1)
        axes.plot(truth, found, "o", ms=3, alpha=0.5, mew=0)
        rmse = np.sqrt(np.mean((found - truth) ** 2))
        axes.set_title(f"{names[i]}: RMSE {rmse:.3g}, n = {len(truth)}", fontsize=9, parse_math=False)
        axes.set(xlabel="label", ylabel="prediction")
        ends = min(truth.min(), found.min()), max(truth.max(), found.max())
        axes.update_datalim([(end, end) for end in ends])  # the same on both
        axes.set_aspect("equal", "datalim")
    return figure


def write_results(
    save: Path,
    data: Path,
    model: str,
    outputs: dict[str, np.ndarray],
    run: Path | None = None,
    *,
    info: PropertyInfo | None = None,
    logits: bool = False,
    **more: dict,
) -> str:
    """Writes SAVE/SPLIT.predictions.csv (line, SMILES, and for each property the prediction, a probability or
    a value, and the label), of values SPLIT.predictions.png and, last, SAVE/result.json; returns the metrics
    in words.

    Args:
        model: its name.
        run: the folder of its training (default: SAVE).
        outputs: [N, properties] of each split: values, or probabilities of class 1; [N, classes] of classes.
        info: of the model, whose scale is not that of another folder (default: DATA's).
        logits: whether they are logits, of which probabilities are written. Metrics are those of logits:
            probabilities of sure predictions round to the same 1.0.
        more: name -> split -> further figures.
    """
    folder, metrics = read_folder(data), {}
    info = info or PropertyInfo.from_dict(folder)
    threshold = 0.0 if logits else 0.5
    for name, values in outputs.items():
        split = LabelledSplit.read(data, name)
        metrics[name] = {"molecules": len(values), "labels": int((~np.isnan(split.labels)).sum())}
        metrics[name] |= summarise(values, split.labels, info.kind, info.std, threshold)
        columns = pd.DataFrame(by_property(values, split.labels, info.kind, threshold), index=info.names)
        # None where a property has no such metric
        columns = columns.astype(object).where(columns.notna(), None)
        metrics[name]["properties"] = columns.to_dict("index")
        metrics[name]["rows_sha256"] = split.sha256
        metrics[name] |= {key: figures[name] for key, figures in more.items()}
        shown = info.outputs.predictions(torch.from_numpy(values)).numpy() if logits else values
        write_predictions(save / f"{name}.predictions.csv", split, shown, info)
        if info.regression:
            figure = truth_against_prediction(info.names, split.labels, shown, f"{model}, {name}")
            with atomic(save / f"{name}{PICTURE}", "wb") as file:
                figure.savefig(file, format="png", dpi=160, metadata={"Software": None})
    names = metrics_of(info.kind, len(info.names))
    about = {"model": model, "kind": info.kind, "split": folder["split"]}
    write_result(save, "moleculenet", folder["dataset"], names[0], metrics, run, **about)
    return ", ".join(f"{split} {key} {digits(metrics[split].get(key))}" for split in outputs for key in names)
