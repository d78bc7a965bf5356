"""Checks a checkpoint and a data folder against each other, and says what fairseq-train needs of both.

    python -m moleculenet.plan CHECKPOINT DATA

prints one line: the number of training molecules, "auc" or "rmse", and the flags of the model.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np

from fs_plugins.data.property_datasets import one_class_only, read_labels
from fs_plugins.data.property_info import PropertyInfo, read_folder
from recipes.checkpoints import CheckpointError, check_dictionary, check_not_finetuned, read_checkpoint
from recipes.moleculenet import writing
from recipes.moleculenet.reading import InputError


def plan(checkpoint: Path, data: Path) -> tuple[int, str, list[str], list[str]]:
    """Training molecules, the metric, the model's flags, and warnings.

    Raises:
        InputError: if the data cannot be used.
        CheckpointError: if the checkpoint cannot be used, or does not fit the data.
    """
    try:
        folder = read_folder(data)
        info = PropertyInfo.from_dict(folder)
        sizes = {part: folder["sizes"][part]["molecules"] for part in ("train", "valid", "test")}
        for part, rows in sizes.items():
            path = data / f"{part}.labels.npy"
            labels = read_labels(path, rows, len(info.names), not info.regression)
            useless = np.isnan(labels).all(0) if info.regression else one_class_only(labels)
            if part != "test" and useless.all():
                what = "labels" if info.regression else "labels of both classes"
                use = "nothing can be learned" if part == "train" else "there is no best epoch to choose"
                raise InputError(f"no property has {what} in {part} of {data}, so {use}: split it otherwise")
    except (OSError, ValueError) as error:
        raise InputError(str(error)) from error
    except (KeyError, TypeError) as error:
        raise InputError(f"{data}/molecules.json is damaged ({error!r}): prepare the data again") from error
    pretrained = read_checkpoint(checkpoint)
    check_not_finetuned(pretrained)
    file, symbols = writing.dictionary_symbols(data)
    compared = check_dictionary(pretrained, symbols, file, writing.OTHER_DICTIONARY)
    warnings = []
    if compared == "size":
        warnings.append(
            "the dictionary of the pre-training is not where the checkpoint says: only its size was compared"
        )
    return sizes["train"], "rmse" if info.regression else "auc", list(pretrained.flags), warnings


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit("error: give a checkpoint and a data folder")
    try:
        rows, metric, flags, warnings = plan(*map(Path, sys.argv[1:]))
    except (InputError, CheckpointError) as error:
        raise SystemExit(f"error: {error}") from error
    for warning in warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print(rows, metric, shlex.join(flags))


if __name__ == "__main__":
    main()
