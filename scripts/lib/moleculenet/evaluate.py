"""Predictions of the best epoch of a fine-tuning on molecules, or of a baseline, and their metrics.

    python -m lib.moleculenet.evaluate SAVE DATA [--device cpu]

writes

    SAVE/SPLIT.predictions.csv  line, SMILES, and for each property the prediction, a probability or a value,
                                and the label; SPLIT is valid or test
    SAVE/result.json            written last
"""

from __future__ import annotations

import hashlib
import math
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from lib.command_line import argument_parser, script
from lib.files import atomic, write_result

from fs_plugins.criterions.property_metrics import by_property, summarise
from fs_plugins.data.property_info import PropertyInfo, read_folder

SPLITS = ("valid", "test")


@dataclass
class Split:
    """The lines in the source and the SMILES of N molecules, and their labels [N, properties]."""

    lines: list[str]
    smiles: list[str]
    labels: np.ndarray

    @classmethod
    def read(cls, data: Path, split: str) -> Split:
        text = (data / f"{split}.tsv").read_text(encoding="utf-8")
        lines, smiles = zip(*(row.split("\t") for row in text.splitlines()[1:]), strict=True)
        return cls(list(lines), list(smiles), np.load(data / f"{split}.labels.npy"))

    @property
    def sha256(self) -> str:
        """Of lines and labels: equal for results that can be compared."""
        digest = hashlib.sha256("\n".join(self.lines).encode())
        digest.update(self.labels.astype("<f4").tobytes())
        return digest.hexdigest()


def write_predictions(path: Path, split: Split, shown: np.ndarray, names: tuple[str, ...]) -> None:
    """An empty cell is a missing label."""
    columns = {"line": split.lines, "smiles": split.smiles}
    for name, values, truths in zip(names, shown.T, split.labels.T, strict=True):
        columns |= {name: values, f"{name} (label)": truths}
    with atomic(path) as file:
        pd.DataFrame(columns).to_csv(file, index=False, float_format="%.6g")


def write_results(
    save: Path,
    data: Path,
    model: str,
    outputs: dict[str, np.ndarray],
    *,
    logits: bool = False,
    **more: dict,
) -> None:
    """Writes both kinds of files, and shows the metrics.

    Args:
        model: its name.
        outputs: [N, properties] of each split: values, or probabilities of class 1.
        logits: whether they are logits, of which probabilities are written. Metrics are those of logits:
            probabilities of sure predictions round to the same 1.0.
        more: name -> split -> further figures.
    """
    folder, metrics = read_folder(data), {}
    info = PropertyInfo.from_dict(folder)
    for name, values in outputs.items():
        split = Split.read(data, name)
        metrics[name] = {"molecules": len(values), "labels": int((~np.isnan(split.labels)).sum())}
        metrics[name] |= summarise(values, split.labels, info.regression)
        columns = by_property(values, split.labels, info.regression)
        metrics[name]["properties"] = {  # None where one has none
            one: {key: None if math.isnan(found[i]) else float(found[i]) for key, found in columns.items()}
            for i, one in enumerate(info.names)
        }
        metrics[name]["rows_sha256"] = split.sha256
        metrics[name] |= {key: figures[name] for key, figures in more.items()}
        shown = 1 / (1 + np.exp(-values)) if logits else values
        write_predictions(save / f"{name}.predictions.csv", split, shown, info.names)
    metric, names = ("rmse", ("rmse", "mae")) if info.regression else ("auc", ("auc",))
    about = {"model": model, "kind": info.kind, "split": folder["split"]}
    write_result(save, folder["dataset"], metric, metrics, **about)
    print(", ".join(f"{split} {one} {metrics[split].get(one)}" for split in outputs for one in names))


@script
def main() -> None:
    from fairseq.data import data_utils
    from lib.predictions import head_outputs, load_finetuned

    from fs_plugins.checkpoint import name_of

    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("save", type=Path)
    add("data", type=Path)
    add("--device", help="cpu, cuda, ... (default: a GPU where there is one)")
    args = parser.parse_args()
    model, cfg, task = load_finetuned(args.save / "checkpoint_best.pt", args.data, args.device)
    info, outputs, truncated = task.properties, {}, {}
    for split in SPLITS:
        found = head_outputs(model, cfg, task, split)
        outputs[split] = found * info.std + info.mean if info.regression else found
        tokens = data_utils.load_indexed_dataset(str(args.data / split), task.dictionary)
        truncated[split] = int((tokens.sizes + 1 > task.positions).sum())  # with <s>
    logits = not info.regression
    write_results(args.save, args.data, name_of(cfg.model), outputs, logits=logits, truncated=truncated)


if __name__ == "__main__":
    sys.exit(main())
