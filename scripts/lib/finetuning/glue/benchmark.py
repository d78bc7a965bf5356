"""GLUE (tables 3, 6 and 11): the recipe, what is written, and the columns of the report."""

import argparse
import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from fairseq.data import data_utils
from lib.command_line import Flags, UserError, counted
from lib.files import write_lines, write_result
from lib.finetuning.benchmark import (
    RECIPES,
    Benchmark,
    Predictions,
    files_of,
    positions,
    repetition,
    tried_point,
)
from lib.finetuning.glue.tasks import FROM_MNLI, SCORES, TASKS, head_of, task_named
from lib.finetuning.grids import GRIDS, points_of
from lib.run.checkpoints import Pretrained, check_dictionary, read_checkpoint
from lib.run.launch import Training

from fs_plugins.data.vocabulary import MASK
from fs_plugins.files import atomic
from fs_plugins.finetuning.glue.task import GlueTask

BOS, EOS = 0, 2  # <s> and </s> of every fairseq dictionary
TOKENS = 64  # mean tokens of a row, about


class Glue(Benchmark):
    name, title, task = "glue", "one task of GLUE", GlueTask
    argument = "task", "such as RTE"
    needs = "glue=FOLDER with a TASK-bin, of prepare_glue.py"
    table, seeds = "table3", (1, 2, 3, 4, 5)
    not_averaged = ("MNLI-mm",)
    keeps_checkpoints, has_grid = False, True

    def add_options(self, add: Callable) -> None:
        add("--recipe", choices=GRIDS, default=GRIDS[0], help="default: %(default)s")
        add("--init-from", type=Path, metavar="FILE", help="a checkpoint fine-tuned on MNLI to start from")
        add("--test", action="store_true", help="predict the test sets too, for gluebenchmark.com")
        kept = "keep scores and predictions only, as a grid search does"
        add("--drop-checkpoints", action="store_true", help=kept)

    def resolve(self, args: argparse.Namespace, pretrained: Pretrained) -> tuple[Training, int]:
        task = task_named(args.task)
        args.task, data = task.name, Path(args.data, f"{task.name}-bin")
        if args.init_from:
            check_mnli(read_checkpoint(args.init_from), pretrained)
        splits = [split for split in task.splits if (data / "input0" / f"{split}.idx").is_file()]
        valid, tests = ([s for s in splits if s.startswith(part)] for part in ("valid", "test"))
        if args.test and not tests:
            raise UserError(f"--test: {data} has no test set")
        flags = Flags.of(
            f"--classification-head-name {head_of(task.name)} --metrics {','.join(task.metrics)} "
            f"--num-classes {task.outputs} --init-token {BOS} --separator-token {EOS} "
            f"--valid-subset {','.join(valid)} {'--regression-target' * task.regression}"
        )
        flags |= repetition(pretrained) | pretrained.flags | positions(pretrained)
        flags |= Flags.read(RECIPES / "recipe.flags") | points_of(task.name, args.recipe)[0].flags | args.user
        training = Training(
            args,
            str(data),
            flags,
            evaluation=["--split", *valid, *(tests if args.test else ())],
            keep_best=not args.drop_checkpoints,
            settings={"test": args.test},
            metrics=("score", "accuracy", "loss", "nll_loss"),
            inputs={"init_from": files_of(args.init_from)} if args.init_from else {},
        )
        return training, len(data_utils.load_indexed_dataset(str(data / "input0" / "train"), None))

    def write(self, args: argparse.Namespace, task: GlueTask, outputs: Predictions, model: str) -> str:
        name, classes = args.data.resolve().name.removesuffix("-bin"), classes_of(args, task)
        scores, rows = {}, {}
        for split, (ids, values) in outputs.items():
            table = pd.DataFrame({"index": ids})
            table["prediction"] = [classes[i] for i in values.argmax(1)] if classes else values[:, 0]
            if task.targets[split] is None:
                numbers = args.data / f"{split}.index"  # data prepared by hand have none
                if numbers.exists():
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
        about = {"rows": rows, "cut": cut}
        write_result(args.output, self.name, name, task.metric, scores, args.checkpoint.parent, **about)
        lines = []
        for split, values in scores.items():
            shorter = f", {cut[split][0]:,} of them cut to {limit} tokens" if cut[split][0] else ""
            shown = ", ".join(f"{metric} {100 * value:.2f}" for metric, value in values.items())
            lines.append(f"{name} {split} ({counted(rows[split], 'row')}{shorter}): {shown}")
        return "\n".join(lines)

    def add_settings(self, add: Callable) -> None:
        super().add_settings(add)
        add("--tasks", choices=TASKS, nargs="+", default=[])

    def data(self, settings: argparse.Namespace) -> dict[str, str]:
        return dict.fromkeys(TASKS, settings.glue) if settings.glue else {}

    def tasks(self, settings: argparse.Namespace) -> list[str]:
        # all tasks of a folder that does not exist yet
        planned = settings.glue and not Path(settings.glue).is_dir()
        prepared = [
            task for task in self.data(settings) if planned or Path(settings.glue, f"{task}-bin").is_dir()
        ]
        return settings.tasks or prepared

    def parts(self, settings: argparse.Namespace) -> dict[str, str | Path]:
        return {path.name: path for path in Path(settings.glue or "none").glob("*-bin")}

    def dictionaries(self, settings: argparse.Namespace) -> list[Path]:
        return [folder / "input0" / "dict.txt" for folder in self.parts(settings).values()]

    def options(self, settings: argparse.Namespace, model: str, task: str) -> list[str]:
        start = settings.init_from.get(model) if task in FROM_MNLI else None
        return ["--drop-checkpoints", *(["--init-from", start] if start else [])]

    def tokens(self, task: str) -> int:
        return TASKS[task].official["train"] * TOKENS

    def columns(self, content: dict) -> dict:
        task, metrics, rows = TASKS[content["task"]], content["metrics"], content["rows"]
        whole = all(rows[split] == task.official[split] for split in ("train", *task.valid_splits))
        from_mnli = bool(content["manifest"]["inputs"].get("init_from"))
        marks = ("" if whole else "†") + ("‡" if from_mnli else "")
        scores = {task.title(split): metrics[split].get(task.metric) for split in task.valid_splits}
        # a score is missing if --metrics left it out
        scores = {column: 100 * score for column, score in scores.items() if score is not None}
        return {"table": self.table, "marks": marks, **tried_point(content), **scores}


def check_mnli(mnli: Pretrained, pretrained: Pretrained) -> None:
    """Raises UserError unless a model was fine-tuned on MNLI, from a pre-training like the other's."""
    if (classes := mnli.task.get("num_classes")) != 3:
        raise UserError(
            f"--init-from {mnli.path} was trained by {mnli.task._name} with {classes} classes, not on MNLI, "
            "which has 3: give the checkpoint_best.pt of finetune_glue.sh MNLI"
        )
    if mnli.dictionary:
        check_dictionary(pretrained, mnli.dictionary, "both have to be of one pre-training")


def classes_of(args: argparse.Namespace, task: GlueTask) -> list[str]:
    """Returns the names of the classes; [] for a regression. Raises UserError if the data are another task's
    than the checkpoint's."""
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
    return classes


def submit(output: Path, name: str, split: str, table: pd.DataFrame) -> None:
    """Writes a file for gluebenchmark.com; scores are within their range."""
    predicted = table["prediction"]
    if predicted.dtype.kind == "f":
        predicted = predicted.clip(*SCORES).map("{:.3f}".format)
    lines = [f"{index}\t{value}" for index, value in zip(table["index"], predicted, strict=True)]
    (output / "submission").mkdir(exist_ok=True)
    file = TASKS[name].title(split) if name in TASKS else name
    write_lines(output / "submission" / f"{file}.tsv", ["index\tprediction", *lines])


def row_lengths(data: Path, split: str) -> np.ndarray:
    """Returns [rows] tokens of each row of a split of TASK-bin, with <s> and the </s> between two
    sentences."""
    parts = sorted(data.glob("input[01]"))
    datasets = [data_utils.load_indexed_dataset(str(part / split), None) for part in parts]
    return sum(dataset.sizes for dataset in datasets) + len(parts)
