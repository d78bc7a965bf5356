#!/usr/bin/env python
"""Predictions of a fine-tuned model, and their scores.

    python scripts/evaluate.py runs/squad/checkpoint_best.pt squad-bin --output answers --threshold -1.5
    python scripts/evaluate.py runs/bbbp/checkpoint_best.pt data-bin/bbbp --output bbbp --split valid test

writes, last, OUTPUT/result.json, and before

    GLUE       predictions/SPLIT.tsv; of a split without labels submission/TASK.tsv, for gluebenchmark.com
    SQuAD      predictions.json (question id -> answer, "" for none), nbest_predictions.json, null_odds.json,
               best_answers.json (the best answer even if none is given)
    molecules  SPLIT.predictions.csv: line, SMILES, and for each property the prediction, a probability or a
               value, and the label

Windows, lengths and metrics are those of the training.
"""

import argparse
import csv
import math
from pathlib import Path

import lib  # noqa: F401  (finds the environment)
import numpy as np
import pandas as pd
from fairseq import tasks
from fairseq.data import data_utils
from lib.command_line import UserError, argument_parser, positive, script
from lib.files import RESULT, atomic, check_absent, reading, write_json, write_lines, write_result
from lib.finetuning.glue.tasks import MNLI_SUBMISSION, SCORES, TASKS, head_of
from lib.finetuning.moleculenet.results import write_results
from omegaconf import OmegaConf

import fs_plugins  # noqa: F401  (models, tasks, and what torch.load may load)
from fs_plugins.data.vocabulary import MASK
from fs_plugins.finetuning.glue.task import GlueTask
from fs_plugins.finetuning.moleculenet.task import MoleculePropertyTask
from fs_plugins.finetuning.scored import ScoredTask, predict
from fs_plugins.finetuning.squad.task import Squad2Task
from fs_plugins.huggingface.restore import open_checkpoint

Outputs = dict[str, tuple[np.ndarray, np.ndarray]]  # split -> ids [N], rows [N, ...]


def load_finetuned(path: Path, device: str | None, data: Path, **settings):
    """Returns the model of a fine-tuning, in full precision, its task and its architecture. Only a task that
    scores is built, with ``settings`` instead of the checkpoint's, and no criterion. Raises OSError or
    ValueError if it is no checkpoint of a fine-tuning, or does not fit the data."""
    loaded = open_checkpoint(path, data, device)
    if not issubclass(tasks.TASK_REGISTRY[loaded.task], ScoredTask):
        raise UserError(f"{path} is of --task {loaded.task}: fine-tune it with scripts/finetune_*.sh")
    settings = {"seed": 1, "best_checkpoint_metric": "loss", **settings, "data": str(data)}
    with reading(data):
        task = tasks.setup_task(OmegaConf.merge(loaded.cfg.task, settings), from_checkpoint=True)
        task.adopt(loaded)
    return loaded.model.float(), task, loaded.arch


def glue(args: argparse.Namespace, task: GlueTask, outputs: Outputs, model: str) -> str:
    """Writes files and result of a task of GLUE; returns the scores in words, a line a split."""
    name, head = args.data.resolve().name.removesuffix("-bin"), task.cfg.classification_head_name
    trained = {head_of(one): one for one in TASKS}.get(head, name)
    if name in TASKS and trained != name:
        raise UserError(f"{args.checkpoint} was fine-tuned on {trained}: {args.data} is of {name}")
    classes = [] if task.cfg.regression_target else task.label_dictionary.symbols[task.dictionary.nspecial :]
    classes = [name for name in classes if name != MASK and not name.startswith("madeupword")]
    if classes and len(classes) != task.cfg.num_classes:
        raise UserError(
            f"{args.checkpoint} has {task.cfg.num_classes} classes, {args.data} {len(classes)} "
            f"({', '.join(classes)}): give the data that it was fine-tuned on"
        )
    scores, rows = {}, {}
    for split, (ids, values) in outputs.items():
        table = pd.DataFrame({"index": ids})
        table["prediction"] = [classes[i] for i in values.argmax(1)] if classes else values[:, 0]
        if task.targets[split] is None:
            if (numbers := args.data / f"{split}.index").exists():  # of data prepared by hand, those of rows
                table["index"] = numbers.read_text().split()
            submit(args.output, name, split, table)
        else:
            labels = task.labels(split, ids)
            table["label"] = [classes[int(i)] for i in labels] if classes else labels
            scores[split], rows[split] = task.score(split, ids, values), len(ids)
        table = table.assign(**{f"output{i}": column for i, column in enumerate(values.T)})
        (args.output / "predictions").mkdir(exist_ok=True)
        with atomic(args.output / "predictions" / f"{split}.tsv") as file:
            table.to_csv(file, sep="\t", index=False, quoting=csv.QUOTE_NONE)
    lengths = {split: row_lengths(args.data, split) for split in ("train", *outputs)}
    rows["train"], limit = len(lengths["train"]), task.max_positions()
    cut = {split: [int((values > limit).sum()), limit] for split, values in lengths.items()}
    write_result(args.output, name, task.metric, scores, args.checkpoint.parent, rows=rows, cut=cut)
    said = []
    for split, values in scores.items():
        shorter = f", {cut[split][0]:,} of them cut to {limit} tokens" if cut[split][0] else ""
        shown = ", ".join(f"{metric} {100 * value:.2f}" for metric, value in values.items())
        said.append(f"{name} {split} ({rows[split]:,} rows{shorter}): {shown}")
    return "\n".join(said)


def submit(output: Path, name: str, split: str, table: pd.DataFrame) -> None:
    """Writes a file for gluebenchmark.com; scores are within their range."""
    predicted = table["prediction"]
    if predicted.dtype.kind == "f":
        predicted = predicted.clip(*SCORES).map("{:.3f}".format)
    lines = [f"{index}\t{value}" for index, value in zip(table["index"], predicted, strict=True)]
    (output / "submission").mkdir(exist_ok=True)
    file = MNLI_SUBMISSION.get(split) if name == "MNLI" else name
    write_lines(output / "submission" / f"{file}.tsv", ["index\tprediction", *lines])


def row_lengths(data: Path, split: str) -> np.ndarray:
    """Returns [rows] tokens of each row of a split of TASK-bin, with <s> and the </s> between two
    sentences."""
    parts = sorted(data.glob("input[01]"))
    datasets = [data_utils.load_indexed_dataset(str(part / split), None) for part in parts]
    return sum(dataset.sizes for dataset in datasets) + len(parts)


def squad(args: argparse.Namespace, task: Squad2Task, outputs: Outputs, model: str) -> str:
    """Does what :func:`glue` does, of SQuAD."""
    [(split, (ids, rows))], threshold = outputs.items(), task.cfg.null_threshold
    answers = task.answers(split, ids, rows)
    unlabelled = task.datasets[split].dataset.split.settings.get("unlabelled", 0)
    scores = {} if unlabelled else {split: answers.evaluate(threshold)}
    for name, content in answers.files(threshold).items():
        write_json(args.output / f"{name}.json", content)
    about = {"split": split, "threshold": threshold, "windows": len(ids)}
    write_result(args.output, "squad2", task.metric, scores, args.checkpoint.parent, **about)
    if unlabelled:
        return f"{args.checkpoint}, {split}: no scores, as {unlabelled:,} questions have no answers"
    [scores] = scores.values()
    return (
        f"{args.checkpoint}, {split}: EM {scores['exact']:.2f}, F1 {scores['f1']:.2f} (of questions with an "
        f"answer {scores.get('HasAns_f1', math.nan):.2f}) at threshold {threshold:g}; F1 "
        f"{scores['best_f1']:.2f} at {scores['best_f1_thresh']:.3f}, the best on these "
        f"{scores['total']:,} questions"
    )


def molecules(args: argparse.Namespace, task: MoleculePropertyTask, outputs: Outputs, model: str) -> str:
    """Does what :func:`glue` does, of molecules."""
    more = {"info": task.properties, "logits": not task.properties.regression, "truncated": {}}
    for split in outputs:
        tokens = data_utils.load_indexed_dataset(str(args.data / split), task.dictionary)
        more["truncated"][split] = int((tokens.sizes + 1 > task.positions).sum())  # with <s>
    rows = {split: rows for split, (_, rows) in outputs.items()}
    return write_results(args.output, args.data, model, rows, args.checkpoint.parent, **more)


def others(args: argparse.Namespace, task: ScoredTask, outputs: Outputs, model: str) -> str:
    """Does what :func:`glue` does, of other tasks: SPLIT.tsv has the outputs of each row."""
    scores = {}
    for split, (ids, rows) in outputs.items():
        table = pd.DataFrame(rows.reshape(len(ids), -1), index=pd.Index(ids, name="index"))
        with atomic(args.output / f"{split}.tsv") as file:
            table.to_csv(file, sep="\t")
        scores[split] = task.score(split, ids, rows)
    write_result(args.output, task.cfg._name, task.metric, scores, args.checkpoint.parent)
    return "\n".join(f"{split}: {metrics}" for split, metrics in scores.items())


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", type=Path, help="of scripts/finetune_*.sh")
    add("data", type=Path, help="what it was fine-tuned on; of GLUE TASK-bin")
    add("--output", type=Path, required=True, help="folder to write into")
    add("--overwrite", action="store_true", help="replace an existing result")
    add("--split", nargs="+", default=["valid"], metavar="NAME", help="default: valid")
    add("--threshold", type=float, metavar="X", help="SQuAD: no answer above these null odds (training's)")
    add("--batch-size", type=positive, default=64, metavar="N", help="rows at a time (default: 64)")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU if there is one)")
    args = parser.parse_args(argv)
    check_absent(args.output / RESULT, args.overwrite)
    threshold = {} if args.threshold is None else {"null_threshold": args.threshold}
    model, task, arch = load_finetuned(args.checkpoint, args.device, args.data, **threshold)
    writers = {GlueTask: glue, Squad2Task: squad, MoleculePropertyTask: molecules, ScoredTask: others}
    if isinstance(task, Squad2Task):
        task.n_best = 20  # answers in nbest_predictions.json
    elif threshold:
        raise UserError(f"--threshold is for SQuAD, not --task {task.cfg._name}: leave it out")
    args.output.mkdir(parents=True, exist_ok=True)  # what cannot be written is found before any work
    outputs = {}
    for split in args.split:
        with reading(args.data / split):
            outputs[split] = predict(task, model, split, args.batch_size)
    write = next(function for of_task, function in writers.items() if isinstance(task, of_task))
    print(write(args, task, outputs, arch))
