"""A GLUE task as fairseq's ``sentence_prediction`` reads it: TASK-bin/{input0,input1,label}."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import numpy as np
import pandas as pd

from lib.command_line import UserError
from lib.corpora.blocks import packed
from lib.corpora.bpe import TextEncoder, UnknownTokenError
from lib.corpora.indexed import indexed_dataset
from lib.dictionaries import SPECIAL
from lib.files import write_json, write_lines
from lib.glue.files import file_of, read_split
from lib.glue.tasks import Task
from lib.preparing import new_folder

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
    summary = {}
    with new_folder(output / f"{task.name}-bin", replaces=SUMMARY) as target:
        (target / "label").mkdir()
        if task.labels:
            write_lines(target / "label" / "dict.txt", (f"{name} 1" for name in task.labels))
        for split, path in files.items():
            rows, skipped = read_split(path, task, split, skip_broken)
            sentences = [[text.strip() for text in rows[column]] for column in task.sentences]
            kept = list(range(len(rows)))
            if split == "train" and train_rows is not None and train_rows < len(rows):
                kept = sorted(random.Random(1).sample(kept, train_rows))
            tokens = 0
            for i, texts in enumerate(sentences):
                try:
                    encoded = encoder.encode([texts[row] for row in kept])
                except UnknownTokenError as error:
                    raise UserError(f"{path}, line {rows.index[kept[error.index]]}: {error}") from None
                with indexed_dataset(target / f"input{i}" / split, encoder.size) as dataset:
                    dataset.add(*packed([np.append(ids, encoder.eos) for ids in encoded]))
                tokens += sum(map(len, encoded))
            _write_labels(target, task, split, rows.iloc[kept], encoder.eos)
            summary[split] = {
                "file": path.name,
                "rows": len(rows),
                "official": task.official[split],
                "skipped_lines": skipped,
                "empty_sentences": sum(not text for texts in sentences for text in texts),
                "kept": len(kept),
                "tokens": tokens,
            }
        for i in range(len(task.sentences)):
            shutil.copyfile(encoder.dictionary_path, target / f"input{i}" / "dict.txt")
        write_json(target / SUMMARY, summary)
    return summary


def _write_labels(target: Path, task: Task, split: str, rows: pd.DataFrame, eos: int) -> None:
    """Classes, scores, or GLUE's numbers of a test set."""
    if split.startswith("test"):
        numbers = next((rows[name] for name in ("index", "id") if name in rows), range(len(rows)))
        write_lines(target / f"{split}.index", map(str, numbers))
    elif task.labels:
        classes = {name: i for i, name in enumerate(task.labels, len(SPECIAL))}
        with indexed_dataset(target / "label" / split, len(SPECIAL) + len(classes)) as dataset:
            dataset.add(*packed([[classes[label], eos] for label in rows[task.label]]))
    else:
        write_lines(target / "label" / f"{split}.label", rows[task.label])
