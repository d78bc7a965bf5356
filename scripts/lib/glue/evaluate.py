"""Predictions of the best epoch of a fine-tuning on GLUE, and their scores.

    python -m lib.glue.evaluate SAVE DATA [--test] [--keep-checkpoint] [--device cpu]

writes SAVE/predictions/SPLIT.tsv, with --test SAVE/submission/ for gluebenchmark.com, and last
SAVE/result.json, the scores of whole development sets; then removes the checkpoints.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import numpy as np
import pandas as pd
from lib.command_line import UserError, argument_parser, script
from lib.files import MANIFEST, atomic, read_json, write_lines, write_result
from lib.glue.tasks import MNLI_SUBMISSION, SCORES, Task, task_named

from fs_plugins.data.vocabulary import SPECIAL

# what is scored besides the metric of table 3
MORE_METRICS = {"CoLA": ("accuracy",), "MRPC": ("f1",), "QQP": ("f1",), "STS-B": ("pearson",)}


def evaluate(save: Path, task: Task, data: Path, test: bool, device: str | None) -> dict:
    """Predicts the splits of TASK-bin and writes the result.

    Raises:
        UserError: if an output is not finite, or with ``test`` there is no test set.
    """
    from lib.predictions import head_outputs, load_finetuned

    splits = [s for s in task.splits if (data / "input0" / f"{s}.idx").is_file() and s != "train"]
    if not test:
        splits = [split for split in splits if not split.startswith("test")]
    elif not any(split.startswith("test") for split in splits):
        raise UserError(f"--test: {data} has no test set")
    finetuned = load_finetuned(save / "checkpoint_best.pt", data, device)
    (save / "predictions").mkdir(exist_ok=True)
    scores, rows = {}, {}
    for split in splits:
        found = predictions_of(task, data, split, head_outputs(*finetuned, split))
        with atomic(save / "predictions" / f"{split}.tsv") as file:
            found.to_csv(file, sep="\t", index=False, quoting=csv.QUOTE_NONE)
        if split.startswith("test"):  # for gluebenchmark.com: scores within their range
            predicted = found["prediction"]
            if task.regression:
                predicted = predicted.clip(*SCORES).map("{:.3f}".format)
            lines = [f"{index}\t{value}" for index, value in zip(found["index"], predicted, strict=True)]
            name = MNLI_SUBMISSION.get(split) if task.name == "MNLI" else task.name
            (save / "submission").mkdir(exist_ok=True)
            write_lines(save / "submission" / f"{name}.tsv", ["index\tprediction", *lines])
        else:
            scores[split], rows[split] = scores_of(found, task), len(found)
    settings = read_json(save / MANIFEST)["settings"]
    limit = int(settings["--max-positions"]) // int(settings.get("--repeat-times", 1))
    lengths = {split: row_lengths(data, split) for split in ("train", *splits)}
    cut = {split: [int((found > limit).sum()), limit] for split, found in lengths.items()}
    rows["train"] = len(lengths["train"])
    return write_result(save, task.name, task.metric, scores, rows=rows, cut=cut)


def predictions_of(task: Task, data: Path, split: str, outputs: np.ndarray) -> pd.DataFrame:
    """index (GLUE's number of a row of a test set, else its place), prediction, label (but of a test set) and
    the outputs of each row; predictions and labels are names of classes, or numbers."""
    from fairseq.data import data_utils

    columns = {"index": range(len(outputs)), "prediction": outputs[:, 0]}
    if not task.regression:
        columns["prediction"] = [task.labels[i] for i in outputs.argmax(1)]
    if split.startswith("test"):
        columns["index"] = (data / f"{split}.index").read_text().split()
    elif task.regression:
        columns["label"] = list(map(float, (data / "label" / f"{split}.label").read_text().split()))
    else:
        ids = data_utils.load_indexed_dataset(str(data / "label" / split), None)
        columns["label"] = [task.labels[int(ids[i][0]) - len(SPECIAL)] for i in range(len(ids))]
    return pd.DataFrame(columns | {f"output{i}": column for i, column in enumerate(outputs.T)})


def scores_of(predictions: pd.DataFrame, task: Task) -> dict[str, float]:
    """The task's metrics, as shares or correlations, that of table 3 first."""
    from fs_plugins.criterions.glue_prediction import score

    columns = (predictions["prediction"], predictions["label"])
    if not task.regression:
        columns = [column.map(task.labels.index) for column in columns]
    return {name: score(name, *columns) for name in (task.metric, *MORE_METRICS.get(task.name, ()))}


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


@script
def main() -> None:
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


if __name__ == "__main__":
    sys.exit(main())
