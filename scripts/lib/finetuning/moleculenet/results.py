"""What is written of predictions on molecules, by a fine-tuned model or a baseline."""

import hashlib
from dataclasses import dataclass
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
    columns = [("line", split.lines), ("smiles", split.smiles)]  # a property may have such a name too
    columns += zip(info.outputs.names, shown.T, strict=True)
    labels = [(f"{name} (label)", truths) for name, truths in zip(info.names, split.labels.T, strict=True)]
    if info.kind == "multiclass":
        columns += labels
    else:  # each beside its prediction
        columns[2:] = [column for pair in zip(columns[2:], labels, strict=True) for column in pair]
    header, values = zip(*columns, strict=True)
    header = [*map(plain_cell, header)]
    with atomic(path) as file:
        table = pd.DataFrame(dict(enumerate(values)))
        table.to_csv(file, index=False, header=header, float_format=f"%.{DIGITS}g")


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
    # matplotlib, which takes a second to load
    from lib.finetuning.moleculenet.pictures import truth_against_prediction, write_picture

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
            write_picture(save / f"{name}{PICTURE}", figure)
    names = metrics_of(info.kind, len(info.names))
    about = {"model": model, "kind": info.kind, "split": folder["split"]}
    write_result(save, "moleculenet", folder["dataset"], names[0], metrics, run, **about)
    return ", ".join(f"{split} {key} {digits(metrics[split].get(key))}" for split in outputs for key in names)
