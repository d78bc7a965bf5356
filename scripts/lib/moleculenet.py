"""MoleculeNet (tables 1, 8 and 9), and molecules of one's own: the sets, the recipe, and what is written of
predictions by a fine-tuned model or a baseline."""

import argparse
import csv
import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from fairseq.data import data_utils
from scipy.special import expit

from fs_plugins.files import atomic, naming_errors
from fs_plugins.finetuning.moleculenet.data import MOLECULES_FILE, labels_by_name, read_folder, read_labels
from fs_plugins.finetuning.moleculenet.metrics import LESS_IS_BETTER, by_property, metrics_of, summarise
from fs_plugins.finetuning.moleculenet.task import MoleculePropertyTask
from fs_plugins.finetuning.outputs import PropertyInfo
from lib.command_line import Flags, UserError
from lib.files import DIGITS, digits, plain_cell, write_result
from lib.recipes import RECIPES, Recipe, repetition
from lib.run.checkpoints import Pretrained

SPLITS = ("valid", "test")  # that are scored
TABLE = "table8"  # of configs/finetune/


@dataclass(frozen=True)
class KnownSet:
    """A set of MoleculeNet as DeepChem distributes it; by default one of a user's own."""

    title: str = ""  # the paper's name
    labels: tuple[str, ...] = ()  # the columns of the labels; () for all others, but the ``ignored``
    ignored: tuple[str, ...] = ()
    smiles: str = "smiles"  # the column of the SMILES
    # Tox21 has 8 salts of aluminium that current releases of RDKit refuse and those of the paper's time read;
    # without them its 7,831 molecules, and so the split, would be others
    allow_valence: bool = False


# order of table 1
KNOWN = {
    "bace": KnownSet("BACE", ("Class",), smiles="mol"),
    "bbbp": KnownSet("BBBP", ("p_np",)),
    "tox21": KnownSet("Tox21", ignored=("mol_id",), allow_valence=True),
    "sider": KnownSet("SIDER"),
    "muv": KnownSet("MUV", ignored=("mol_id",)),
    "clintox": KnownSet("ClinTox", ("FDA_APPROVED", "CT_TOX")),
    "toxcast": KnownSet("ToxCast"),
}


def add_options(add: Callable) -> None:
    """Adds finetune_moleculenet.sh's own options, by ``add_argument``."""
    add("--scratch", action="store_true", help="the same architecture, untrained")


def hyper_parameters(dataset: str) -> Flags:
    """Returns table 8's, or the defaults of configs/finetune/table8.flags for any other set."""
    own, defaults = RECIPES / TABLE / f"{dataset}.flags", Flags.read(RECIPES / f"{TABLE}.flags")
    return defaults | Flags.read(own) if own.is_file() else defaults


def recipe(args: argparse.Namespace, pretrained: Pretrained) -> Recipe:
    """Returns what fairseq-train is called with."""
    data = Path(args.data).resolve()
    about = read_folder(data)
    with naming_errors(data / MOLECULES_FILE):
        info, sizes = PropertyInfo.from_dict(about), about["sizes"]
        if not {"train", "valid"} <= {*sizes}:
            raise UserError(f"{data} is a test set alone: give it to evaluate.py, and here what to train on")
        rows = int(sizes["train"]["molecules"])
    metrics = (*metrics_of(info.kind, len(info.names)), "loss")
    best = Flags({"--best-checkpoint-metric": (metrics[0],)})
    if metrics[0] not in LESS_IS_BETTER:
        best.set("--maximize-best-checkpoint-metric")
    return Recipe(
        data,
        pretrained.flags | hyper_parameters(args.dataset) | repetition(pretrained) | best | args.user,
        rows=rows,
        metrics=metrics,
        evaluation=["--split", *(split for split in SPLITS if split in sizes)],
        settings={"task": args.dataset, "scratch": args.scratch},
        note="" if args.dataset in KNOWN else f"default hyper-parameters: '{args.dataset}' is not in table 8",
    )


def read_split(data: Path, split: str, names: tuple[str, ...]) -> pd.DataFrame:
    """Returns the labels [molecules, properties] of a prepared split, NaN where one is missing, by
    "line" (of the source) and "smiles"; of properties that the folder lacks all are missing."""
    molecules = pd.read_csv(
        data / f"{split}.tsv", sep="\t", quoting=csv.QUOTE_NONE, dtype=str, na_filter=False
    )
    known = read_folder(data)["names"]
    labels = read_labels(data / f"{split}.labels.npy", len(molecules), len(known))
    return pd.DataFrame(labels_by_name(labels, known, names), pd.MultiIndex.from_frame(molecules), names)


def rows_sha256(labels: pd.DataFrame) -> str:
    """Returns a hash of lines and labels: equal for results that can be compared."""
    digest = hashlib.sha256("\n".join(labels.index.get_level_values("line")).encode())
    digest.update(labels.to_numpy("<f8").tobytes())
    return digest.hexdigest()


def write(task: MoleculePropertyTask, outputs: dict, args: argparse.Namespace, model: str) -> str:
    """Writes what :func:`write_results` does into ``args.output``; returns the scores in words. ``outputs``
    has for each split ids [N] and rows [N, properties]."""
    truncated = {}
    for split in outputs:
        tokens = data_utils.load_indexed_dataset(str(args.data / split), task.dictionary)
        truncated[split] = int((tokens.sizes + 1 > task.positions).sum())  # counts <s>
    rows = {split: rows for split, (_, rows) in outputs.items()}
    info, logits = task.properties, not task.properties.regression
    return write_results(
        args.output, args.data, model, rows, args.checkpoint.parent, info, logits, truncated=truncated
    )


def write_results(
    save: Path,
    data: Path,
    model: str,
    outputs: dict[str, np.ndarray],
    run: Path,
    info: PropertyInfo,
    logits: bool = False,
    **more: dict,
) -> str:
    """Writes SAVE/SPLIT.predictions.csv (line, SMILES, and for each property the prediction, a probability or
    a value, and the label) and, last, SAVE/result.json; returns the metrics in words.

    Args:
        model: its name.
        outputs: [N, properties] of each split: values, or scores of class 1.
        run: the folder of its training.
        info: of the model, whose properties and scale need not be those of DATA.
        logits: whether the scores are logits, of which probabilities are written. Metrics are those of
            logits: probabilities of sure predictions round to the same 1.0.
        more: name -> split -> further figures.
    """
    folder, metrics, threshold = read_folder(data), {}, 0.0 if logits else 0.5
    for name, values in outputs.items():
        split = read_split(data, name, info.names)
        labels = split.to_numpy()
        metrics[name] = {"molecules": len(values), "labels": int((~np.isnan(labels)).sum())}
        metrics[name] |= summarise(values, labels, info.kind, info.std, threshold)
        columns = pd.DataFrame(by_property(values, labels, info.kind, threshold), index=info.names)
        # None where a property has no such metric
        columns = columns.astype(object).where(columns.notna(), None)
        metrics[name]["properties"] = columns.to_dict("index")
        metrics[name]["rows_sha256"] = rows_sha256(split)
        metrics[name] |= {key: figures[name] for key, figures in more.items()}
        _write_predictions(save / f"{name}.predictions.csv", split, expit(values) if logits else values)
    names = metrics_of(info.kind, len(info.names))
    about = {"model": model, "kind": info.kind, "split": folder["split"]}
    write_result(save, "moleculenet", folder["dataset"], names[0], metrics, run, **about)
    return ", ".join(f"{split} {key} {digits(metrics[split].get(key))}" for split in outputs for key in names)


def _write_predictions(path: Path, labels: pd.DataFrame, shown: np.ndarray) -> None:
    """``shown`` [molecules, properties]; each column stands beside its labels."""
    pairs = np.arange(2 * shown.shape[1]).reshape(2, -1).T.ravel()
    table = pd.concat([pd.DataFrame(shown, labels.index), labels], axis=1).iloc[:, pairs]
    header = [plain_cell(f"{name}{end}") for name in labels for end in ("", " (label)")]
    with atomic(path) as file:
        table.to_csv(file, header=header, float_format=f"%.{DIGITS}g")
