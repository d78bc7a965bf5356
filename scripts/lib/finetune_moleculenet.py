"""Fine-tuning on a set of MoleculeNet, or one's own molecules and properties (table 8): what
scripts/finetune_moleculenet.sh runs."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from lib.checkpoints import check_dictionary, check_not_finetuned, read_checkpoint
from lib.command_line import UserError, run_main
from lib.dictionaries import read_symbols
from lib.finetuning import finetuning_parser, read_request, split_update, training
from lib.flags import Flags, check_recipe
from lib.folders import CONFIGS
from lib.launch import Training, launch

SCRIPT = "finetune_moleculenet.sh"
TABLE8 = CONFIGS / "finetune" / "table8"
RESULT = "metrics.json"
FILE = "molecules.json"  # of a folder that prepare_moleculenet.py made
SPLITS = ("train", "valid", "test")
OTHER_DICTIONARY = "prepare the data with the dict.txt of its pre-training"
NOT_FOUND = (
    "warning: the dictionary of the pre-training is not where the checkpoint says: only its size was compared"
)


def resolve(words: list[str]) -> Training:
    """One fine-tuning.

    Raises:
        UserError: for what cannot be trained.
    """
    request = read_request(parser(), words)
    args = request.args
    flags = Flags.read(TABLE8.with_suffix(".flags")) | Flags.named("dataset", args.dataset, TABLE8)
    molecules, metric, notes = check_data(args.data, args.dataset)
    pretrained, dictionary = read_checkpoint(args.checkpoint), args.data / "dict.txt"
    check_not_finetuned(pretrained)
    if check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY) == "size":
        notes.append(NOT_FOUND)
    flags = Flags.of(pretrained.flags) | flags
    flags.set("--best-checkpoint-metric", metric)
    if metric == "auc":
        flags.set("--maximize-best-checkpoint-metric")
    flags |= request.user
    check_recipe(flags)
    return training(
        request,
        args.dataset,
        flags,
        split_update(flags),
        molecules,
        args.save / RESULT,
        lambda metrics: json.dumps(
            {split: {metric: metrics[split].get(metric)} for split in ("valid", "test")}
        ),
        data=str(args.data.resolve()),
        inputs={"data": [args.data / FILE]},  # has the hashes of the data
        settings={"scratch": args.scratch},
        words={"start": [] if args.scratch else ["--finetune-from-model", str(args.checkpoint.resolve())]},
        notes=notes,
    )


def parser() -> argparse.ArgumentParser:
    result = finetuning_parser(SCRIPT, one_worker=True)
    result.add_argument("--scratch", action="store_true", help="the same architecture, untrained")
    return result


def check_data(data: Path, dataset: str) -> tuple[int, str, list[str]]:
    """(training molecules, "auc" or "rmse", notes for the user).

    Raises:
        UserError: if nothing can be learned from the data.
    """
    from fs_plugins.data.property_info import PropertyInfo, one_class_only, read_folder, read_labels

    if not (data / FILE).is_file():
        raise UserError(f"{data / FILE} does not exist: DATA is a folder made by prepare_moleculenet.py")
    try:
        folder = read_folder(data)
        info = PropertyInfo.from_dict(folder)
        sizes = {split: folder["sizes"][split]["molecules"] for split in ("train", "valid", "test")}
        for split, use in (
            ("train", "nothing can be learned"),
            ("valid", "there is no best epoch to choose"),
        ):
            labels = read_labels(
                data / f"{split}.labels.npy", sizes[split], len(info.names), not info.regression
            )
            useless = np.isnan(labels).all(0) if info.regression else one_class_only(labels)
            if useless.all():
                what = "labels" if info.regression else "labels of both classes"
                raise UserError(f"no property has {what} in {split} of {data}, so {use}: split it otherwise")
    except (KeyError, TypeError) as error:
        raise UserError(f"{data / FILE} is damaged ({error!r}): prepare the data again") from error
    other = folder["dataset"] != dataset and (TABLE8 / f"{folder['dataset']}.flags").exists()
    note = f"warning: {data} was prepared as {folder['dataset']}, and is fine-tuned with the "
    note += f"hyper-parameters of {dataset}"
    return sizes["train"], "rmse" if info.regression else "auc", [note] if other else []


def main() -> int:
    return launch(SCRIPT, resolve, sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run_main(main))
