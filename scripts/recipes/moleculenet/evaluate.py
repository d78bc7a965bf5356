"""Predictions of a fine-tuned checkpoint for the splits of a data folder, and their metrics.

    python -m recipes.moleculenet.evaluate CHECKPOINT DATA OUTPUT [--seed N] [--truncate] [--device cpu]

writes what recipes.moleculenet.results describes.
"""

from __future__ import annotations

import logging
import pickle
import sys
from pathlib import Path

import numpy as np
import torch
from fairseq.data import data_utils

from fs_plugins.analysis.checkpoint import load_checkpoint
from fs_plugins.analysis.molecules import MoleculeModel
from fs_plugins.data.property_info import PropertyInfo, fingerprint, read_folder
from recipes.command_line import RecipeError, argument_parser, run_main
from recipes.moleculenet.results import SPLITS, read_split, summary, write_results


def evaluate(
    checkpoint: Path, data: Path, output: Path, seed: int | None, truncate: bool, device: str | None
) -> dict:
    """Writes the files and returns the metrics.

    Raises:
        RecipeError, ValueError, OSError: if something does not fit or cannot be written.
    """
    loaded = load_checkpoint(checkpoint, None, device)
    model = MoleculeModel(loaded, truncate=truncate)
    info: PropertyInfo | None = model.properties
    folder = read_folder(data)
    if info is None or list(info.names) != folder["names"] or info.kind != folder["kind"]:
        raise RecipeError(f"{checkpoint} was not fine-tuned on the properties of {data}")
    if fingerprint(loaded.dictionary.symbols) != folder["dictionary"]:
        raise RecipeError(f"{data} was binarised with another dictionary than that of {checkpoint}")
    output.mkdir(parents=True, exist_ok=True)
    bos = torch.tensor([loaded.dictionary.bos()])
    tables = {split: read_split(data, split, info) for split in SPLITS}
    outputs, cut = {}, {}
    for split, (rows, _) in tables.items():
        tokens = data_utils.load_indexed_dataset(str(data / split), loaded.dictionary)
        if tokens is None or len(tokens) != len(rows):
            raise RecipeError(
                f"{data} has {len(tokens or ())} tokenised molecules of {split} ({split}.bin and .idx), but "
                f"{len(rows)} in {split}.tsv: prepare the data again"
            )
        read = [model.shorten(torch.cat([bos, tokens[i].long()])) for i in range(len(rows))]
        found = np.stack(model.run([item for item, _ in read], model.outputs)).astype(np.float64)
        outputs[split] = found * info.std + info.mean if info.regression else found
        cut[split] = sum(bool(remark) for _, remark in read)
    about = {
        "dataset": folder["dataset"],
        "model": loaded.arch,
        "seed": seed,
        "checkpoint": str(checkpoint),
        "split": folder["split"],
    }
    return write_results(output, about, tables, info, outputs, logits=not info.regression, truncated=cut)


def run(argv: list[str] | None) -> None:
    parser = argument_parser(__doc__)
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
    except (RuntimeError, pickle.UnpicklingError) as error:
        raise RecipeError(f"{args.checkpoint}: {error}") from error
    print(summary(result))


def main(argv: list[str] | None = None) -> int:
    return run_main(lambda: run(argv))


if __name__ == "__main__":
    sys.exit(main())
