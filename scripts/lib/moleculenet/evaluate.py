"""Predictions of the best epoch of a fine-tuning on molecules, and their metrics.

    python -m lib.moleculenet.evaluate SAVE DATA [--device cpu]

writes what lib.moleculenet.results describes; of molecules longer than the positions the start is read.
"""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import torch
from fairseq.data import data_utils

from fs_plugins.analysis.molecules import MoleculeModel
from fs_plugins.data.property_info import PropertyInfo, fingerprint, read_folder
from fs_plugins.models.checkpoint import load_checkpoint
from lib.command_line import UserError, argument_parser, run_main
from lib.moleculenet.results import SPLITS, read_split, summary, write_results

BEST = "checkpoint_best.pt"


def evaluate(save: Path, data: Path, device: str | None) -> dict:
    """Writes the files and returns the metrics.

    Raises:
        UserError, ValueError, OSError: if something does not fit or cannot be written.
    """
    checkpoint = save / BEST
    loaded = load_checkpoint(checkpoint, None, device)
    model = MoleculeModel(loaded, truncate=True)
    info: PropertyInfo | None = model.properties
    folder = read_folder(data)
    if info is None or list(info.names) != folder["names"] or info.kind != folder["kind"]:
        raise UserError(f"{checkpoint} was not fine-tuned on the properties of {data}")
    if fingerprint(loaded.dictionary.symbols) != folder["dictionary"]:
        raise UserError(f"{data} was binarised with another dictionary than that of {checkpoint}")
    bos = torch.tensor([loaded.dictionary.bos()])
    tables = {split: read_split(data, split, info) for split in SPLITS}
    outputs, cut = {}, {}
    for split, (rows, _) in tables.items():
        tokens = data_utils.load_indexed_dataset(str(data / split), loaded.dictionary)
        if tokens is None or len(tokens) != len(rows):
            raise UserError(
                f"{data} has {len(tokens or ())} tokenised molecules of {split} ({split}.bin and .idx), but "
                f"{len(rows)} in {split}.tsv: prepare the data again"
            )
        read = [model.shorten(torch.cat([bos, tokens[i].long()])) for i in range(len(rows))]
        found = np.stack(model.run([item for item, _ in read], model.outputs)).astype(np.float64)
        outputs[split] = found * info.std + info.mean if info.regression else found
        cut[split] = sum(bool(remark) for _, remark in read)
    more = {"logits": not info.regression, "truncated": cut}
    return write_results(save, folder, loaded.arch, tables, info, outputs, **more)


def main() -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("save", type=Path)
    add("data", type=Path)
    add("--device", help="cpu, cuda, ... (default: a GPU where there is one)")
    args = parser.parse_args()
    try:
        result = evaluate(args.save, args.data, args.device)
    except (RuntimeError, pickle.UnpicklingError) as error:
        raise UserError(f"{args.save / BEST}: {error}") from error
    print(summary(result))


if __name__ == "__main__":
    sys.exit(run_main(main))
