"""A GLUE task as fairseq's ``sentence_prediction`` reads it: TASK-bin/{input0,input1,label}."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import torch
from fairseq.data import indexed_dataset

from recipes.corpora.bpe import TextEncoder, UnknownTokenError
from recipes.glue.files import GlueError, Report, Row, file_of, read_split
from recipes.glue.tasks import REGRESSION, Task

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
    """Writes OUTPUT/TASK-bin, whole or not at all.

    Besides fairseq's files there are SPLIT.index of the test sets (GLUE's number of each row) and
    summary.json (what is returned).

    Args:
        source: the folder with the task's folder, or the task's folder itself.
        output: where TASK-bin goes; one that is there is replaced.
        train_rows: keep that many rows of the training set, drawn by a fixed seed, in their order.

    Returns:
        split -> {"file", "rows", "official", "kept", "skipped_lines", "empty_sentences", "tokens"}.

    Raises:
        GlueError: for a file that cannot be read, none for training or validation, or a TASK-bin that is
            something else.
    """
    folder = source / task.name if (source / task.name).is_dir() else source
    files = {split: path for split in task.splits if (path := file_of(folder, task, split))}
    for split in ("train", "valid"):
        if split not in files:
            raise GlueError(f"{folder} has no {task.splits[split]}.tsv, nor one in .gz: it is {task.name}'s?")
    target, partial = output / f"{task.name}-bin", output / f"{task.name}-bin.partial"
    if target.exists() and not (target / SUMMARY).is_file():
        raise GlueError(f"{target} is not prepare_glue.py's: choose another OUTPUT, or remove it")
    shutil.rmtree(partial, ignore_errors=True)
    for part in _parts(task):
        (partial / part).mkdir(parents=True)
        if part != "label":
            shutil.copyfile(encoder.dictionary_path, partial / part / "dict.txt")
    if task.kind != REGRESSION:
        (partial / "label" / "dict.txt").write_text("".join(f"{name} 1\n" for name in task.labels))
    summary = {}
    for split, path in files.items():
        report = Report(path)
        rows = read_split(path, task, split, skip_broken, report)
        if split == "train" and train_rows is not None:
            rows = iter(drawn(list(rows), train_rows))
        written = _write_split(task, split, rows, partial, encoder, path)
        if not written["kept"]:
            raise GlueError(f"{path}: no rows for the {split} set")
        summary[split] = {
            "file": path.name,
            "rows": report.rows,
            "official": task.official[split],
            "skipped_lines": report.skipped,
            "empty_sentences": report.empty_sentences,
            **written,
        }
    (partial / SUMMARY).write_text(json.dumps(summary, indent=1) + "\n")
    shutil.rmtree(target, ignore_errors=True)
    partial.replace(target)
    return summary


def _parts(task: Task) -> list[str]:
    return [*(f"input{i}" for i in range(len(task.sentences))), "label"]


def drawn(rows: list[Row], count: int, seed: int = 1) -> list[Row]:
    """A sample of rows in their order, always the same one."""
    if count >= len(rows):
        return rows
    return [rows[i] for i in sorted(random.Random(seed).sample(range(len(rows)), count))]


def _write_split(task, split, rows: Iterator[Row], folder: Path, encoder: TextEncoder, path: Path) -> dict:
    builders = {}

    def builder(part: str, size: int):
        name = str(folder / part / f"{split}.bin")
        builders[part] = (indexed_dataset.make_builder(name, "mmap", vocab_size=size), name)
        return builders[part][0]

    inputs = [builder(part, encoder.size) for part in _parts(task)[:-1]]
    labelled = not split.startswith("test")
    classes = {name: i for i, name in enumerate(task.labels, 4)}  # after the dictionary's special symbols
    labels = builder("label", 4 + len(classes)) if labelled and classes else None
    texts: list[str] = []  # scores, or GLUE's numbers of a test set
    kept = tokens = 0
    for batch in _batches(rows):
        for i, part in enumerate(inputs):
            try:
                encoded = encoder.encode([row.sentences[i] for row in batch])
            except UnknownTokenError as error:
                raise GlueError(f"{path}, line {batch[error.index].line}: {error}") from None
            for ids in encoded:
                part.add_item(torch.tensor([*ids.tolist(), encoder.eos]))
                tokens += len(ids)
        for row in batch:
            if labels is not None:
                labels.add_item(torch.tensor([classes[row.label], encoder.eos]))
            else:
                texts.append(row.label if labelled else row.index)
        kept += len(batch)
    for dataset, name in builders.values():
        dataset.finalize(name.removesuffix(".bin") + ".idx")
    if texts:
        place = folder / "label" / f"{split}.label" if labelled else folder / f"{split}.index"
        place.write_text("".join(f"{text}\n" for text in texts))
    return {"kept": kept, "tokens": tokens}


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield batch
