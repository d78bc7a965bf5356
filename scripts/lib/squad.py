"""SQuAD 1.1 and 2.0 (tables 3 and 11): their JSON, the recipe, and what is written of predictions."""

import argparse
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from fs_plugins.files import naming_errors, write_json
from fs_plugins.finetuning.squad.data import Answer, Question, Squad, load_split
from fs_plugins.finetuning.squad.task import LOGGED, Squad2Task
from fs_plugins.finetuning.squad.windows import NO_LABEL, WindowSizes, make_windows
from lib.command_line import Flags, UserError, counted
from lib.data.text_files import opened
from lib.files import write_result
from lib.recipes import RECIPES, Recipe, positions
from lib.run.checkpoints import Pretrained

NAME = "squad2"  # name of the task
WINDOW = ("--window-tokens", "--doc-stride", "--max-question-tokens", "--max-answer-tokens")
QUESTIONS = 11_873  # of the official development set


def read_squad(paths: Sequence[Path], split: str) -> tuple[Squad, list[str]]:
    """Reads the questions of files of one split.

    An answer that is not where its ``answer_start`` says keeps its text, for evaluation, and has no place: it
    is not trained on. Such questions are counted.

    Args:
        paths: files of JSON, plain or compressed; their questions follow each other.
        split: its name; in "train" and "valid" every question has to have answers, or be impossible.

    Returns:
        The split, and the ids of the questions that have no answers and are not impossible.

    Raises:
        UserError: for an id that occurs twice, a question of "train" or "valid" that has no answers and is
            not impossible, and a training set without an answer in its context.
        ValueError: for a file of another form.
    """
    squad, unlabelled, names = Squad(), [], ", ".join(map(str, paths))
    for path in paths:
        with naming_errors(f"{path}, in the form of train-v2.0.json"), opened(path) as file:
            for paragraph in (one for article in json.load(file)["data"] for one in article["paragraphs"]):
                squad.contexts.append(paragraph["context"])
                for entry in paragraph["qas"]:
                    question = _add_question(squad, entry)
                    if not question.answers and entry.get("is_impossible") is not True:
                        unlabelled.append(question.id)
    asked = Counter(question.id for question in squad.questions)
    if twice := [name for name, times in asked.items() if times > 1]:
        raise UserError(f"{names}: question {twice[0]} occurs twice")
    if not asked:
        raise UserError(f"{names} has no question: give another file")
    if unlabelled and split in ("train", "valid"):
        raise UserError(
            f"{names}: {counted(len(unlabelled), 'question')} without answers, not is_impossible either, "
            f"such as {unlabelled[0]}: to predict them, prepare them by --split test"
        )
    if split == "train" and not any(q.answers and q.answers[0].start >= 0 for q in squad.questions):
        raise UserError(f"no question of {names} has an answer that is at its answer_start")
    return squad, unlabelled


def _add_question(squad: Squad, entry: dict) -> Question:
    """Adds a question about the last context."""
    name, context = str(entry["id"]), squad.contexts[-1]
    listed = entry.get("answers") or []
    answers = [Answer(a["text"], _place(context, a["text"], a["answer_start"])) for a in listed]
    if any(answer.start < 0 for answer in answers):
        squad.misplaced.append(name)
    squad.questions.append(Question(name, entry["question"], len(squad.contexts) - 1, tuple(answers)))
    return squad.questions[-1]


def _place(context: str, answer: str, given: int) -> int:
    """Returns where the answer begins: ``given``, or -1 if it is not there."""
    return given if given >= 0 and answer.strip() and context.startswith(answer, given) else -1


def add_options(add: Callable) -> None:
    """Adds finetune_squad.sh's own options: none."""


def recipe(args: argparse.Namespace, pretrained: Pretrained) -> Recipe:
    """Returns what fairseq-train is called with; windows are no longer than the samples of the pre-training
    were."""
    data, flags = Path(args.data).resolve(), Flags.read(RECIPES / f"{NAME}.flags")
    flags |= Flags.of("--best-checkpoint-metric f1 --maximize-best-checkpoint-metric")
    if sample := pretrained.task.get("tokens_per_sample"):
        flags.set("--window-tokens", min(flags.whole("--window-tokens"), sample))
    window = (flags | args.user).whole("--window-tokens")
    flags.set("--doc-stride", max(1, window // 4))
    for name, most in (("--max-question-tokens", window // 2), ("--max-answer-tokens", window // 4)):
        flags.set(name, max(1, min(flags.whole(name), most)))
    sizes = WindowSizes(*map((flags | args.user).whole, WINDOW))
    windows = make_windows(load_split(str(data), "train"), sizes)
    if not (learned := int((windows.labels[:, 0] != NO_LABEL).sum())):
        raise UserError(f"no question of {data}/train.npz can be learned: no answer is at its answer_start")
    return Recipe(
        data,
        pretrained.flags | positions(pretrained, window) | flags | args.user,
        rows=learned,
        metrics=(*LOGGED.values(), "span_accuracy", "loss"),
        evaluation=[],
        settings={"task": NAME},
        inputs={"data": [data / name for name in ("dict.txt", "train.npz", "valid.npz")]},
    )


def write(task: Squad2Task, outputs: dict, args: argparse.Namespace, model: str) -> str:
    """Writes predictions.json (question id -> answer, "" for none) and, last, result.json into
    ``args.output``; returns the scores in words. ``outputs`` has for one split ids [N] and rows [N, 4]."""
    [(split, (ids, rows))], threshold = outputs.items(), task.cfg.null_threshold
    answers = task.answers(split, ids, rows)
    unlabelled = task.datasets[split].dataset.split.settings.get("unlabelled", 0)
    scores = {} if unlabelled else answers.evaluate(threshold)
    write_json(args.output / "predictions.json", answers.predictions(threshold))
    about = {"split": split, "threshold": threshold, "windows": len(ids)}
    metrics = {split: scores} if scores else {}
    write_result(args.output, "squad", NAME, task.metric, metrics, args.checkpoint.parent, **about)
    if unlabelled:
        return f"{args.checkpoint}, {split}: no scores: {counted(unlabelled, 'question')} without answers"
    return (
        f"{args.checkpoint}, {split}: EM {scores['exact']:.2f}, F1 {scores['f1']:.2f} at threshold "
        f"{threshold:g}; F1 {scores['best_f1']:.2f} at {scores['best_f1_thresh']:.3f}, the best on these "
        f"{counted(scores['total'], 'question')}"
    )
