"""What scripts/finetune_moleculenet.sh and scripts/baseline_moleculenet.py write of a model's predictions.

SAVE/SPLIT.predictions.csv  line, SMILES, and for each property the prediction, a probability or a value, and
                            the label
SAVE/result.json            written last
"""

from __future__ import annotations

import csv
import hashlib
import math
from pathlib import Path

import numpy as np

from fs_plugins.criterions.property_metrics import by_property, summarise
from fs_plugins.data.property_info import PropertyInfo, read_labels
from lib.command_line import UserError
from lib.files import atomic, write_result

SPLITS = ("valid", "test")


def read_split(data: Path, split: str, info: PropertyInfo) -> tuple[list[list[str]], np.ndarray]:
    """The rows (line, SMILES) and labels [N, properties] of a split."""
    path = data / f"{split}.tsv"
    if not path.is_file():
        raise UserError(f"{path} does not exist: prepare the data again")
    with path.open(encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    path = data / f"{split}.labels.npy"
    return rows, read_labels(path, len(rows), len(info.names))


def rows_sha256(rows: list[list[str]], labels: np.ndarray) -> str:
    """Which rows of the source a split has, and their labels: equal for results that can be compared."""
    digest = hashlib.sha256("\n".join(row[0] for row in rows).encode())
    digest.update(labels.astype("<f4").tobytes())
    return digest.hexdigest()


def split_metrics(predictions: np.ndarray, labels: np.ndarray, info: PropertyInfo) -> dict:
    """Means, and each property's own; None where it has none."""
    metrics = {"molecules": len(labels), "labels": int((~np.isnan(labels)).sum())}
    metrics |= summarise(predictions, labels, info.regression)
    columns = by_property(predictions, labels, info.regression)
    metrics["properties"] = {
        name: {key: None if math.isnan(column[i]) else float(column[i]) for key, column in columns.items()}
        for i, name in enumerate(info.names)
    }
    return metrics


def write_predictions(
    path: Path, rows: list[list[str]], shown: np.ndarray, labels: np.ndarray, names: tuple[str, ...]
) -> None:
    """An empty cell is a missing label."""
    with atomic(path) as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["line", "smiles", *(f"{n}{end}" for n in names for end in ("", " (label)"))])
        for row, values, truths in zip(rows, shown, labels, strict=True):
            cells = []
            for value, truth in zip(values, truths, strict=True):
                cells += [f"{value:.6g}", "" if math.isnan(truth) else f"{truth:g}"]
            writer.writerow([*row, *cells])


def write_results(
    save: Path,
    folder: dict,
    model: str,
    tables: dict[str, tuple[list[list[str]], np.ndarray]],
    info: PropertyInfo,
    outputs: dict[str, np.ndarray],
    *,
    logits: bool = False,
    **more: dict,
) -> dict:
    """Writes both kinds of files; returns what result.json holds.

    Args:
        folder: what molecules.json says of the data.
        model: its name.
        tables: rows and labels of each split, of :func:`read_split`.
        outputs: [N, properties] of each split: values, or probabilities of class 1.
        logits: whether they are logits, of which probabilities are written. Metrics are those of logits:
            probabilities of sure predictions round to the same 1.0.
        more: name -> split -> further figures.
    """
    metrics = {}
    for split, values in outputs.items():
        rows, labels = tables[split]
        metrics[split] = split_metrics(values, labels, info)
        metrics[split]["rows_sha256"] = rows_sha256(rows, labels)
        metrics[split] |= {name: figures[split] for name, figures in more.items()}
        shown = 1 / (1 + np.exp(-values)) if logits else values
        write_predictions(save / f"{split}.predictions.csv", rows, shown, labels, info.names)
    metric = "rmse" if info.regression else "auc"
    about = {"model": model, "kind": info.kind, "split": folder["split"]}
    return write_result(save, folder["dataset"], metric, metrics, **about)


def summary(result: dict) -> str:
    """A line for the user: the metrics of each split."""
    names = ("rmse", "mae") if result["kind"] == "regression" else ("auc",)
    return ", ".join(
        f"{split} {name} {result['metrics'][split].get(name)}" for split in SPLITS for name in names
    )
