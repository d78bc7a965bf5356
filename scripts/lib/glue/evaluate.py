"""Scores the best epoch of a fine-tuning on GLUE, from its saved predictions.

    python -m lib.glue.evaluate SAVE DATA [--test] [--keep-checkpoint] [--device cpu]

writes SAVE/predictions/SPLIT.tsv, with --test SAVE/submission/ for gluebenchmark.com, and last
SAVE/result.json, the scores of whole development sets; then removes the checkpoints.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lib.command_line import UserError, argument_parser, run_main
from lib.files import read_json
from lib.folders import MANIFEST, write_result
from lib.glue.tasks import Task, task_named


def evaluate(save: Path, task: Task, data: Path, test: bool, device: str | None) -> dict:
    """Predicts the splits of TASK-bin and writes the result.

    Raises:
        UserError: if the training left no checkpoint, or with ``test`` there is no test set.
    """
    from lib.glue.predictions import predict, scores_of, write_predictions, write_submission

    best = save / "checkpoint_best.pt"
    if not best.is_file():
        raise UserError(f"the training left no {best}: see {save / 'train.log'}")
    splits = [s for s in task.splits if (data / "input0" / f"{s}.idx").is_file() and s != "train"]
    if not test:
        splits = [split for split in splits if not split.startswith("test")]
    elif not any(split.startswith("test") for split in splits):
        raise UserError(f"--test: {data} has no test set")
    folder = save / "predictions"
    folder.mkdir(exist_ok=True)
    scores, rows = {}, {}
    for split, predictions in predict(best, data, task, splits, device).items():
        write_predictions(folder / f"{split}.tsv", predictions)
        if predictions.targets is not None:
            scores[split] = scores_of(folder / f"{split}.tsv", task)
            rows[split] = len(predictions.index)
        else:
            write_submission(save / "submission", task, split, predictions)
    settings = read_json(save / MANIFEST)["settings"]
    limit = int(settings["--max-positions"]) // int(settings.get("--repeat-times", 1))
    lengths = {split: row_lengths(data, split) for split in ("train", *splits)}
    cut = {split: [int((found > limit).sum()), limit] for split, found in lengths.items()}
    rows["train"] = len(lengths["train"])
    return write_result(save, task.name, task.metric, scores, rows=rows, cut=cut)


def row_lengths(data: Path, split: str):
    """[rows] tokens of each row of a split of TASK-bin, with <s> and the </s> between two sentences."""
    from fairseq.data import data_utils

    parts = sorted(data.glob("input[01]"))
    datasets = [data_utils.load_indexed_dataset(str(part / split), None) for part in parts]
    return sum(dataset.sizes for dataset in datasets) + len(parts)


def scores_text(result: dict) -> str:
    """A result in words, a line a split."""
    lines = []
    for split, scores in result["metrics"].items():
        text = ", ".join(f"{name} {100 * value:.2f}" for name, value in scores.items())
        cut, limit = result["cut"].get(split, (0, 0))
        shortened = f", {cut:,} of them cut to {limit} tokens" if cut else ""
        lines.append(f"{result['task']} {split} ({result['rows'][split]:,} rows{shortened}): {text}")
    return "\n".join(lines)


def main() -> int:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("save", type=Path)
    add("data", type=Path, help="TASK-bin")
    add("--test", action="store_true", help="predict the test sets too")
    add("--keep-checkpoint", action="store_true", help="keep checkpoint_best.pt")
    add("--device", help="cpu, cuda, ... (default: a GPU if there is one)")
    args = parser.parse_args()
    task = task_named(args.data.resolve().name.removesuffix("-bin"))
    print(scores_text(evaluate(args.save, task, args.data, args.test, args.device)))
    for path in args.save.glob("checkpoint*.pt"):  # last: whenever this ends, nothing is lost
        if path.name != "checkpoint_best.pt" or not args.keep_checkpoint:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(run_main(main))
