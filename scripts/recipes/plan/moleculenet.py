"""Fine-tuning on a set of MoleculeNet, or one's own molecules and properties (table 8)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from recipes.checkpoints import check_dictionary, check_not_finetuned, read_checkpoint
from recipes.command_line import RecipeError
from recipes.dictionaries import read_symbols
from recipes.files import read_json
from recipes.flags import Flags, check_recipe
from recipes.folders import CONFIGS
from recipes.plan import finetuning
from recipes.plan.plan import Plan, override

TABLE8 = CONFIGS / "finetune" / "table8"
RESULT = "metrics.json"
FILE = "molecules.json"  # of a folder that prepare_moleculenet.py made
OTHER_DICTIONARY = "prepare the data with the dict.txt of its pre-training"


def plan(program: str, words: list[str]) -> Plan:
    """The plan of one fine-tuning.

    Raises:
        RecipeError: for what cannot be trained.
    """
    request = finetuning.read_request(parser(program), words)
    args = request.args
    known = sorted(path.stem for path in TABLE8.glob("*.flags"))
    if args.dataset not in known:
        raise RecipeError(f"unknown dataset '{args.dataset}': choose one of {', '.join(known)}")
    molecules, metric, notes = check_data(args.data, args.dataset, known)
    pretrained, dictionary = read_checkpoint(args.checkpoint), args.data / "dict.txt"
    check_not_finetuned(pretrained)
    if check_dictionary(pretrained, read_symbols(dictionary), dictionary, OTHER_DICTIONARY) == "size":
        notes.append(
            "warning: the dictionary of the pre-training is not where the checkpoint says: only its size was "
            "compared"
        )
    recipe = Flags(Flags.read(TABLE8.with_suffix(".flags")) | Flags.read(TABLE8 / f"{args.dataset}.flags"))
    groups = override({"model": Flags.of(pretrained.flags), "recipe": recipe}, request.user)
    recipe = groups["recipe"]
    check_recipe(recipe)
    chosen = {name: recipe.value(f"--{name}") for name in ("lr", "batch-size", "max-epoch", "warmup-ratio")}
    finetuning.batch_and_schedule(groups, molecules)
    best = Flags()
    best.set("--best-checkpoint-metric", metric)
    if metric == "auc":
        best.set("--maximize-best-checkpoint-metric")
    groups["best"] = best
    asked = {"dataset": args.dataset, "point": chosen, "scratch": args.scratch}
    read = {"data": [args.data / FILE]}  # has the hashes of the data
    start = [] if args.scratch else ["--finetune-from-model", str(args.checkpoint.resolve())]
    found = finetuning.plan_of(request, args.data.resolve(), groups, asked, read, start)
    found.notes = notes
    finetuning.check_finished(found, RESULT, _said(args.save / RESULT))
    return found


def parser(program: str):
    result = finetuning.finetuning_parser(
        program,
        "dataset",
        one_worker=True,
        what="Fine-tunes a pre-trained model on molecular properties, and tests the epoch that is best on\n"
        "the validation set (ROC-AUC, or RMSE).",
        details="  DATASET     bace, bbbp, tox21, sider, muv, clintox or toxcast: whose hyper-parameters of\n"
        "              table 8 to take; for data of your own the set most like it",
        maker="prepare_moleculenet.py with the dictionary of the pre-training",
        configs="finetune/table8",
        batch="in as many steps as --update-freq says",
    )
    result.epilog = (
        "SAVE gets checkpoint_best.pt, metrics.json and predictions of the validation and test sets. Of "
        "molecules of more than 512 tokens the start is read (metrics.json counts them)."
    )
    result.add_argument("--scratch", action="store_true", help="the same architecture, untrained")
    return result


def check_data(data: Path, dataset: str, known: list[str]) -> tuple[int, str, list[str]]:
    """(training molecules, "auc" or "rmse", notes for the user).

    Raises:
        RecipeError: if nothing can be learned from the data.
    """
    from fs_plugins.data.property_datasets import one_class_only, read_labels
    from fs_plugins.data.property_info import PropertyInfo, read_folder

    if not (data / FILE).is_file():
        raise RecipeError(f"{data / FILE} does not exist: DATA is a folder made by prepare_moleculenet.py")
    try:
        folder = read_folder(data)
        info = PropertyInfo.from_dict(folder)
        sizes = {part: folder["sizes"][part]["molecules"] for part in ("train", "valid", "test")}
        for part, rows in sizes.items():
            labels = read_labels(data / f"{part}.labels.npy", rows, len(info.names), not info.regression)
            useless = np.isnan(labels).all(0) if info.regression else one_class_only(labels)
            if part != "test" and useless.all():
                what = "labels" if info.regression else "labels of both classes"
                use = "nothing can be learned" if part == "train" else "there is no best epoch to choose"
                raise RecipeError(f"no property has {what} in {part} of {data}, so {use}: split it otherwise")
    except (OSError, ValueError) as error:
        raise RecipeError(str(error)) from error
    except (KeyError, TypeError) as error:
        raise RecipeError(f"{data / FILE} is damaged ({error!r}): prepare the data again") from error
    notes = []
    if folder["dataset"] != dataset and folder["dataset"] in known:
        notes.append(
            f"warning: {data} was prepared as {folder['dataset']}, and is fine-tuned with the "
            f"hyper-parameters of {dataset}"
        )
    return sizes["train"], "rmse" if info.regression else "auc", notes


def _said(path: Path) -> str:
    metrics = read_json(path)
    if not metrics:
        return ""
    name = "rmse" if metrics["kind"] == "regression" else "auc"
    return json.dumps({split: {name: metrics[split].get(name)} for split in ("valid", "test")})
