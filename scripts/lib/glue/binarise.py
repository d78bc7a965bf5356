"""A GLUE task as fairseq's ``sentence_prediction`` reads it: TASK-bin/{input0,input1,label}."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np

from lib.command_line import UserError
from lib.corpora.bpe import TextEncoder, UnknownTokenError
from lib.corpora.indexed import indexed_dataset
from lib.dictionaries import SPECIAL
from lib.files import write_json, write_lines
from lib.folders import new_folder
from lib.glue.files import Report, Row, file_of, read_split
from lib.glue.tasks import REGRESSION, Task

BATCH = 1000  # rows tokenised at once
SUMMARY = "summary.json"


def binarise(
    task: Task,
    source: Path,
    output: Path,
    encoder: TextEncoder,
    skip_broken: bool = False,
    train_rows: int | None = None,
) -> dict[str, dict]:
    """Writes OUTPUT/TASK-bin, completely or not at all.

    Besides fairseq's files it has SPLIT.index of the test sets (GLUE's number of each row) and summary.json
    (what is returned).

    Args:
        source: the folder with the task's folder, or the task's folder itself.
        output: where TASK-bin goes; an existing one is replaced.
        train_rows: keep this many rows of the training set, drawn with a fixed seed, in their order.

    Returns:
        split -> {"file", "rows", "official", "kept", "skipped_lines", "empty_sentences", "tokens"}.

    Raises:
        UserError: for a file that cannot be read, no training or validation file, or a TASK-bin that is
            something else.
    """
    folder = source / task.name if (source / task.name).is_dir() else source
    files = {split: path for split in task.splits if (path := file_of(folder, task, split))}
    for split in ("train", "valid"):
        if split not in files:
            name = f"{task.splits[split]}.tsv"
            raise UserError(f"{folder} has no {name} or {name}.gz: is this the folder of {task.name}?")
    inputs = [f"input{i}" for i in range(len(task.sentences))]
    summary = {}
    with new_folder(output / f"{task.name}-bin", replaces=SUMMARY) as target:
        for part in (*inputs, "label"):
            (target / part).mkdir()
        for part in inputs:
            shutil.copyfile(encoder.dictionary_path, target / part / "dict.txt")
        if task.kind != REGRESSION:
            write_lines(target / "label" / "dict.txt", (f"{name} 1" for name in task.labels))
        for split, path in files.items():
            report = Report()
            rows = read_split(path, task, split, skip_broken, report)
            if split == "train" and train_rows is not None:
                rows = iter(drawn(list(rows), train_rows))
            kept, tokens = _write_split(task, split, rows, target, encoder, path)
            if not kept:
                raise UserError(f"{path}: no rows for the {split} set")
            summary[split] = {
                "file": path.name,
                "rows": report.rows,
                "official": task.official[split],
                "skipped_lines": report.skipped,
                "empty_sentences": report.empty_sentences,
                "kept": kept,
                "tokens": tokens,
            }
        write_json(target / SUMMARY, summary)
    return summary


def drawn(rows: list[Row], count: int) -> list[Row]:
    """A sample of rows in their order, always the same one."""
    if count >= len(rows):
        return rows
    return [rows[i] for i in sorted(random.Random(1).sample(range(len(rows)), count))]


def _write_split(
    task: Task, split: str, rows: Iterator[Row], folder: Path, encoder: TextEncoder, path: Path
) -> tuple[int, int]:
    """Writes a split; returns its rows and tokens."""
    labelled = not split.startswith("test")
    classes = {name: i for i, name in enumerate(task.labels, len(SPECIAL))}
    lines: list[str] = []  # scores, or GLUE's numbers of a test set
    kept = tokens = 0
    with ExitStack() as stack:

        def dataset(part: str, entries: int):
            return stack.enter_context(indexed_dataset(folder / part / split, entries))

        inputs = [dataset(f"input{i}", encoder.size) for i in range(len(task.sentences))]
        labels = dataset("label", len(SPECIAL) + len(classes)) if labelled and classes else None
        while batch := list(islice(rows, BATCH)):
            for i, part in enumerate(inputs):
                try:
                    encoded = encoder.encode([row.sentences[i] for row in batch])
                except UnknownTokenError as error:
                    raise UserError(f"{path}, line {batch[error.index].line}: {error}") from None
                part.add_sentences([np.append(ids, encoder.eos) for ids in encoded])
                tokens += sum(map(len, encoded))
            if labels is not None:
                labels.add_sentences([np.array([classes[row.label], encoder.eos]) for row in batch])
            else:
                lines += [row.label if labelled else row.index for row in batch]
            kept += len(batch)
    if lines:
        write_lines(folder / "label" / f"{split}.label" if labelled else folder / f"{split}.index", lines)
    return kept, tokens
