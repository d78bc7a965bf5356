"""SQuAD 2.0 (tables 3 and 11): the recipe, what is written, and the columns of the report."""

import argparse
import math
from pathlib import Path

from lib.command_line import Flags, UserError, counted
from lib.files import write_result
from lib.finetuning.benchmark import RECIPES, Benchmark, Predictions, positions, tried_point
from lib.run.checkpoints import Pretrained
from lib.run.launch import Training

from fs_plugins.files import write_json
from fs_plugins.finetuning.squad.data import load_split
from fs_plugins.finetuning.squad.task import LOGGED, Squad2Task
from fs_plugins.finetuning.squad.windows import NO_LABEL, WindowSizes, make_windows

NAME = "squad2"  # name of the task
WINDOW = ("--window-tokens", "--doc-stride", "--max-question-tokens", "--max-answer-tokens")
ROWS, TOKENS, QUESTIONS = 130_319, 384, 11_873  # training set, a window, development set


class Squad(Benchmark):
    name, title, task = "squad", "SQuAD 2.0", Squad2Task
    several_gpus = has_grid = True
    epoch = ROWS * TOKENS
    needs = "squad=FOLDER"
    table, seeds = "table3", (1, 2, 3, 4, 5)
    not_averaged = ("EM", "F1")

    def resolve(self, args: argparse.Namespace, pretrained: Pretrained) -> tuple[Training, int]:
        args.task, data, recipe = NAME, Path(args.data).resolve(), self.recipe(NAME)
        files = [data / name for name in ("dict.txt", "train.npz", "valid.npz")]
        flags = recipe | args.user
        if "--window-tokens" not in args.user and (sample := pretrained.task.get("tokens_per_sample")):
            flags.set("--window-tokens", min(recipe.whole("--window-tokens"), sample))
        window = flags.whole("--window-tokens")
        if "--doc-stride" not in args.user:
            flags.set("--doc-stride", max(1, window // 4))
        for name, most in (("--max-question-tokens", window // 2), ("--max-answer-tokens", window // 4)):
            if name not in args.user:
                flags.set(name, max(1, min(recipe.whole(name), most)))
        windows = make_windows(load_split(str(data), "train"), WindowSizes(*map(flags.whole, WINDOW)))
        if not (trained_on := int((windows.labels[:, 0] != NO_LABEL).sum())):
            raise UserError(
                f"no question of {files[1]} can be learned: the answers are not in their contexts"
            )
        flags = pretrained.flags | positions(pretrained, window) | flags
        about = {"metrics": (*LOGGED.values(), "span_accuracy", "loss"), "inputs": {"data": files}}
        return Training(args, str(data), flags, evaluation=[], **about), trained_on

    def recipe(self, task: str) -> Flags:
        return Flags.read(RECIPES / f"{NAME}.flags")

    def write(self, args: argparse.Namespace, task: Squad2Task, outputs: Predictions, model: str) -> str:
        [(split, (ids, rows))], threshold = outputs.items(), task.cfg.null_threshold
        answers = task.answers(split, ids, rows)
        unlabelled = task.datasets[split].dataset.split.settings.get("unlabelled", 0)
        scores = {} if unlabelled else {split: answers.evaluate(threshold)}
        for name, content in answers.files(threshold).items():
            write_json(args.output / f"{name}.json", content)
        about = {"split": split, "threshold": threshold, "windows": len(ids)}
        write_result(args.output, self.name, NAME, task.metric, scores, args.checkpoint.parent, **about)
        if unlabelled:
            return f"{args.checkpoint}, {split}: no scores: {counted(unlabelled, 'question')} without answers"
        [scores] = scores.values()
        return (
            f"{args.checkpoint}, {split}: EM {scores['exact']:.2f}, F1 {scores['f1']:.2f} (of questions with "
            f"an answer {scores.get('HasAns_f1', math.nan):.2f}) at threshold {threshold:g}; F1 "
            f"{scores['best_f1']:.2f} at {scores['best_f1_thresh']:.3f}, the best on these "
            f"{counted(scores['total'], 'question')}"
        )

    def data(self, settings: argparse.Namespace) -> dict[str, str]:
        return {NAME: settings.squad} if settings.squad else {}

    def columns(self, content: dict) -> dict:
        scores = content["metrics"]["valid"]
        marks = "" if scores.get("total") == QUESTIONS else "†"
        shown = {"EM": scores["exact"], "F1": scores["f1"]}
        return {"table": self.table, "marks": marks, **tried_point(content), **shown}
