#!/usr/bin/env python
"""Answers of a model that was fine-tuned with --task squad2, and their exact match and F1.

    python scripts/predict_squad.py checkpoint_best.pt squad-bin --split valid --output runs/squad/seed1

writes predictions.json (question id -> answer, "" for none), nbest_predictions.json, null_odds.json,
best_answers.json (the best answer even where none is given) and result.json. Windows are as in training.
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import torch
from fairseq import utils
from lib.command_line import UserError, argument_parser, positive, script
from lib.files import write_json, write_result
from lib.predictions import load_finetuned

from fs_plugins.checkpoint import name_of
from fs_plugins.data.squad_answers import AnswerTable, window_answers
from fs_plugins.tasks.squad2 import Squad2Task


@torch.no_grad()
def answer(model, task: Squad2Task, criterion, split: str, n_best: int, batch_size: int) -> AnswerTable:
    """The answers to all questions of a split, whatever the batch size."""
    task.load_dataset(split)
    dataset = task.dataset(split)
    table, order = AnswerTable(dataset, n_best), dataset.ordered_indices()
    device = next(model.parameters()).device
    for begin in range(0, len(order), batch_size):
        batch = dataset.collater([dataset[i] for i in order[begin : begin + batch_size]])
        batch = utils.move_to_cuda(batch, device) if device.type == "cuda" else batch
        start, end = criterion.span_scores(model, batch)
        table.add(window_answers(start, end, batch["id"], task.cfg.max_answer_tokens, n_best))
    return table


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("checkpoint", type=Path)
    add("data", help="folder made by scripts/prepare_squad.py")
    add("--split", default="valid", help="default: %(default)s")
    add("--output", type=Path, required=True, help="folder to write into")
    add("--n-best", type=positive, default=20, metavar="N", help="answers in nbest_predictions.json (20)")
    threshold = "no answer if the null odds are above it (default: the training's)"
    add("--threshold", type=float, metavar="X", help=threshold)
    add("--batch-size", type=positive, default=32, metavar="N", help="windows at a time (default: 32)")
    add("--device", help="cpu, cuda, cuda:1, ... (default: a GPU where there is one)")
    args = parser.parse_args(argv)
    if args.threshold is not None and math.isnan(args.threshold):
        raise UserError("--threshold nan: give a number")
    model, cfg, task = load_finetuned(args.checkpoint, args.data, args.device)
    if not isinstance(task, Squad2Task):
        raise UserError(
            f"{args.checkpoint} is a checkpoint of --task {name_of(cfg.task)}: fine-tune it with "
            "scripts/finetune_squad.sh"
        )
    criterion = task.build_criterion(cfg.criterion).eval()
    table = answer(model, task, criterion, args.split, args.n_best, args.batch_size)
    threshold = task.cfg.null_threshold if args.threshold is None else args.threshold
    scores = table.evaluate(threshold)
    args.output.mkdir(parents=True, exist_ok=True)
    names = ("predictions", "nbest_predictions", "null_odds")
    answers = dict(zip(names, table.predictions(threshold), strict=True))
    questions = table.dataset.split.squad.questions
    answers["best_answers"] = {questions[q].id: table.best(q)[0] for q in sorted(table.null)}
    for name, content in answers.items():
        write_json(args.output / f"{name}.json", content)
    about = {"split": args.split, "threshold": threshold, "windows": table.windows}
    write_result(args.output, "squad2", "f1", {args.split: scores}, args.checkpoint.parent, **about)
    print(
        f"{args.checkpoint}, {args.split}: EM {scores['exact']:.2f}, F1 {scores['f1']:.2f} at threshold "
        f"{threshold:g}; F1 {scores['best_f1']:.2f} at {scores['best_f1_thresh']:.3f}, the best on these "
        f"{scores['total']:,} questions"
    )


if __name__ == "__main__":
    sys.exit(main())
