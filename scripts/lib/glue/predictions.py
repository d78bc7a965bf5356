"""Predictions of a fine-tuned model: saved row by row, scored from what was saved, and as GLUE takes them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path

import torch

from lib.command_line import UserError
from lib.files import atomic, write_lines
from lib.glue.tasks import REGRESSION, Task

SENTENCES = 64  # of a batch
# what is scored besides the metric of table 3
MORE_METRICS = {"CoLA": ("accuracy",), "MRPC": ("f1",), "QQP": ("f1",), "STS-B": ("pearson",)}


@dataclass(frozen=True)
class Predictions:
    """Of a split, in the order of its file.

    Attributes:
        index: GLUE's number of each row of a test set, else its place.
        predicted: class names, or numbers for a regression.
        targets: the same of the truth; None for a test set.
        logits: outputs of the head, a list for each row.
    """

    index: list[str]
    predicted: list[str] | list[float]
    targets: list[str] | list[float] | None
    logits: list[list[float]]


def predict(
    checkpoint: Path, data: Path, task: Task, splits: list[str], device: str | None
) -> dict[str, Predictions]:
    """Predictions of a checkpoint of a fine-tuning, in full precision.

    Raises:
        UserError: if the checkpoint is of another task, or an output is not finite.
    """
    from fairseq import checkpoint_utils, utils

    import fs_plugins  # noqa: F401  (models, tasks, and what torch.load may load)

    overrides = {"data": str(data)}
    models, cfg, fairseq_task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], overrides)
    [model] = models
    head = cfg.criterion.classification_head_name
    outputs = getattr(cfg.task, "num_classes", None)
    if outputs != task.outputs or bool(cfg.criterion.regression_target) != (task.kind == REGRESSION):
        raise UserError(f"{checkpoint} was fine-tuned with {outputs} outputs, {task.name} has {task.outputs}")
    device = device or ("cuda" if torch.cuda.is_available() else "cpu")
    model = model.to(device).float().eval()
    found = {}
    for split in splits:
        dataset = fairseq_task.load_dataset(split)
        batches = fairseq_task.get_batch_iterator(dataset, max_sentences=SENTENCES, num_workers=0)
        logits = torch.full((len(dataset), task.outputs), torch.nan, dtype=torch.float64)
        for batch in batches.next_epoch_itr(shuffle=False):
            batch = utils.move_to_cuda(batch, device)
            with torch.no_grad():
                output, _ = model(**batch["net_input"], features_only=True, classification_head_name=head)
            logits[batch["id"].cpu()] = output.double().cpu()
        if broken := int((~logits.isfinite()).any(1).sum()):
            raise UserError(
                f"{checkpoint} gives {broken} of the {len(logits)} rows of the {split} set no finite output: "
                "its training diverged, give it a lower --lr"
            )
        found[split] = _named(task, fairseq_task, data, split, logits)
    return found


def _named(task: Task, fairseq_task, data: Path, split: str, logits: torch.Tensor) -> Predictions:
    """Logits [N, outputs] with the names of their classes, and the truth."""
    from fairseq.data import data_utils

    labelled = not split.startswith("test")
    path = data / (f"label/{split}.label" if labelled else f"{split}.index")
    lines = path.read_text().split() if path.is_file() else None
    if task.kind == REGRESSION:
        predicted = logits.view(-1).tolist()
        targets = [float(line) for line in lines] if labelled else None
    else:
        dictionary = fairseq_task.label_dictionary
        names = dictionary.symbols[dictionary.nspecial :][: task.outputs]
        predicted = [names[i] for i in logits.argmax(1).tolist()]
        targets = None
        if labelled:
            labels = data_utils.load_indexed_dataset(str(data / "label" / split), dictionary)
            targets = [dictionary[int(labels[i][0])] for i in range(len(labels))]
    index = list(map(str, range(len(logits)))) if labelled else lines
    for what, values in (("labels", targets), ("numbers", index)):
        if values is not None and len(values) != len(logits):
            raise UserError(f"{data}: {len(values)} {what} for the {len(logits)} rows of the {split} set")
    return Predictions(index, predicted, targets, logits.tolist())


def write_predictions(path: Path, predictions: Predictions) -> None:
    """index, prediction, label (if known) and the outputs, tab-separated; numbers to their last digit."""
    width = len(predictions.logits[0])
    with atomic(path) as file:
        writer = csv.writer(file, delimiter="\t", quoting=csv.QUOTE_NONE, lineterminator="\n")
        labels = ["label"] if predictions.targets is not None else []
        writer.writerow(["index", "prediction", *labels, *(f"output{i}" for i in range(width))])
        targets = predictions.targets or [None] * len(predictions.index)
        rows = zip(predictions.index, predictions.predicted, targets, predictions.logits, strict=True)
        for index, predicted, target, logits in rows:
            truth = [target] if labels else []
            writer.writerow([index, predicted, *truth, *logits])


def scores_of(path: Path, task: Task) -> dict[str, float]:
    """The task's metrics of a saved file with labels, as shares or correlations, that of table 3 first."""
    from fs_plugins.criterions.glue_prediction import score

    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    if task.kind == REGRESSION:
        predicted, targets = ([float(row[name]) for row in rows] for name in ("prediction", "label"))
    else:
        numbers = {name: i for i, name in enumerate(task.labels)}
        predicted, targets = ([numbers[row[name]] for row in rows] for name in ("prediction", "label"))
    return {name: score(name, predicted, targets) for name in (task.metric, *MORE_METRICS.get(task.name, ()))}


def write_submission(folder: Path, task: Task, split: str, predictions: Predictions) -> Path:
    """The file of a submission to gluebenchmark.com: index and prediction; scores within their range."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / task.submission_file(split)
    predicted = predictions.predicted
    if task.kind == REGRESSION:
        lowest, highest = task.score_range
        predicted = [f"{min(max(value, lowest), highest):.3f}" for value in predicted]
    lines = [f"{index}\t{value}" for index, value in zip(predictions.index, predicted, strict=True)]
    write_lines(path, ["index\tprediction", *lines])
    return path
