"""Predictions of a fine-tuned checkpoint for the splits of a data folder, and their metrics.

    python -m moleculenet.evaluate CHECKPOINT DATA OUTPUT [--seed N] [--truncate] [--device cpu]

writes OUTPUT/SPLIT.predictions.csv (line, SMILES, and for each property the prediction, a probability or a
value, and the label) and, last, OUTPUT/metrics.json.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
import logging
import math
import os
import pickle
from pathlib import Path

import numpy as np
import torch
from fairseq.data import data_utils

from fs_plugins.analysis.checkpoint import load_checkpoint
from fs_plugins.analysis.molecules import MoleculeModel
from fs_plugins.criterions.property_metrics import regression_errors, roc_auc_scores, summarise
from fs_plugins.data.property_datasets import read_labels
from fs_plugins.data.property_info import PropertyInfo, fingerprint, read_folder
from recipes.command_line import RecipeError
from recipes.files import write_json

SPLITS = ("valid", "test")


def read_split(data: Path, split: str, info: PropertyInfo) -> tuple[list[list[str]], np.ndarray]:
    """The rows (line, SMILES) and labels [N, properties] of a split."""
    path = data / f"{split}.tsv"
    if not path.is_file():
        raise FileNotFoundError(f"{path} is not there: prepare the data again")
    with path.open(encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    path = data / f"{split}.labels.npy"
    return rows, read_labels(path, len(rows), len(info.names), not info.regression)


def rows_sha256(rows: list[list[str]], labels: np.ndarray) -> str:
    """Which rows of the source a split has, and their labels: equal for results that can be compared."""
    digest = hashlib.sha256("\n".join(row[0] for row in rows).encode())
    digest.update(labels.astype("<f4").tobytes())
    return digest.hexdigest()


def split_metrics(predictions: np.ndarray, labels: np.ndarray, info: PropertyInfo) -> dict:
    """Means, and each property's own; None where it has none."""
    metrics = {"molecules": len(labels), "labels": int((~np.isnan(labels)).sum())}
    metrics |= summarise(predictions, labels, info.regression)
    if info.regression:
        columns = dict(zip(("rmse", "mae"), regression_errors(predictions, labels), strict=True))
    else:
        columns = {"auc": roc_auc_scores(predictions, labels)}
    metrics["properties"] = {
        name: {key: None if math.isnan(column[i]) else float(column[i]) for key, column in columns.items()}
        for i, name in enumerate(info.names)
    }
    return metrics


def write_predictions(
    path: Path, rows: list[list[str]], shown: np.ndarray, labels: np.ndarray, names: tuple[str, ...]
) -> None:
    """Whole or not at all; an empty cell is a missing label."""
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["line", "smiles", *(f"{n}{end}" for n in names for end in ("", " (label)"))])
        for row, values, truths in zip(rows, shown, labels, strict=True):
            cells = []
            for value, truth in zip(values, truths, strict=True):
                cells += [f"{value:.6g}", "" if math.isnan(truth) else f"{truth:g}"]
            writer.writerow([*row, *cells])
    os.replace(partial, path)


def evaluate(
    checkpoint: Path, data: Path, output: Path, seed: int | None, truncate: bool, device: str | None
) -> dict:
    """Writes the files and returns the metrics.

    Raises:
        RecipeError, ValueError, OSError: if something does not fit or cannot be written.
    """
    loaded = load_checkpoint(checkpoint, None, device)
    model = MoleculeModel(loaded, truncate=truncate)
    info, folder = model.properties, read_folder(data)
    if info is None or list(info.names) != folder["names"] or info.kind != folder["kind"]:
        raise RecipeError(f"{checkpoint} was not fine-tuned on the properties of {data}")
    if fingerprint(loaded.dictionary.symbols) != folder["dictionary"]:
        raise RecipeError(f"{data} was binarised with another dictionary than that of {checkpoint}")
    output.mkdir(parents=True, exist_ok=True)
    bos = torch.tensor([loaded.dictionary.bos()])
    metrics = {}
    for split in SPLITS:
        rows, labels = read_split(data, split, info)
        tokens = data_utils.load_indexed_dataset(str(data / split), loaded.dictionary)
        if tokens is None or len(tokens) != len(rows):
            raise RecipeError(
                f"{data} has {len(tokens or ())} tokenised molecules of {split} ({split}.bin and .idx), but "
                f"{len(rows)} in {split}.tsv: prepare the data again"
            )
        read = [model.shorten(torch.cat([bos, tokens[i].long()])) for i in range(len(rows))]
        outputs = np.stack(model.run([item for item, _ in read], model.outputs)).astype(np.float64)
        # the metrics of classes are those of logits: probabilities of sure predictions round to the same 1.0
        values = outputs * info.std + info.mean if info.regression else outputs
        shown = values if info.regression else 1 / (1 + np.exp(-outputs))
        metrics[split] = split_metrics(values, labels, info)
        metrics[split]["rows_sha256"] = rows_sha256(rows, labels)
        metrics[split]["truncated"] = sum(bool(remark) for _, remark in read)
        write_predictions(output / f"{split}.predictions.csv", rows, shown, labels, info.names)
    result = {
        "dataset": folder["dataset"],
        "model": loaded.arch,
        "kind": info.kind,
        "seed": seed,
        "checkpoint": str(checkpoint),
        "split": folder["split"],
        **metrics,
    }
    write_json(output / "metrics.json", result)
    return result


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    add = parser.add_argument
    add("checkpoint", type=Path)
    add("data", type=Path)
    add("output", type=Path)
    add("--seed", type=int)
    add("--truncate", action="store_true", help="read the start of molecules longer than the positions")
    add("--device", help="cpu, cuda, ... (default: a GPU where there is one)")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, force=True)  # fairseq has set its own
    try:
        result = evaluate(args.checkpoint, args.data, args.output, args.seed, args.truncate, args.device)
    except (RecipeError, ValueError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise SystemExit(f"error: {error}") from error
    metrics = ("rmse", "mae") if result["kind"] == "regression" else ("auc",)
    print(json.dumps({split: {m: result[split].get(m) for m in metrics} for split in SPLITS}))


if __name__ == "__main__":
    main()
