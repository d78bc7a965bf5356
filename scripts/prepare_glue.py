"""Prepares GLUE for fine-tuning, with the BPE and the dictionary of a pre-training.

    python scripts/prepare_glue.py glue glue-bin --data data-bin/text
    python scripts/prepare_glue.py glue glue-bin --dictionary dict.txt --bpe encoder.json vocab.bpe \\
        --tasks CoLA RTE

GLUE has a folder per task, glue/RTE/{train,dev,test}.tsv, plain or .gz, as from gluebenchmark.com. Writes
glue-bin/RTE-bin and so on; a task is written completely or not at all. See docs/finetune.md.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
from pathlib import Path

import pandas as pd
from lib.command_line import UserError, argument_parser, positive, script
from lib.corpora.bpe import TextEncoder, add_encoder_arguments, encoder_of
from lib.files import write_json, write_lines
from lib.glue.tasks import COLA_COLUMNS, SCORES, TASKS, Task, task_named
from lib.preparing import lines_of, new_folder, write_dataset

from fs_plugins.data.vocabulary import SPECIAL

SUMMARY = "summary.json"
LONGEST_SHOWN = 300  # characters of a header


def binarise(task: Task, args: argparse.Namespace, encoder: TextEncoder) -> dict[str, dict]:
    """Writes OUTPUT/TASK-bin, completely or not at all; an existing one is replaced.

    Besides fairseq's files it has SPLIT.index of the test sets (GLUE's number of each row) and summary.json
    (what is returned).

    Returns:
        split -> {"file", "rows", "official", "kept", "skipped_lines", "empty_sentences", "tokens"}.

    Raises:
        UserError: for a file that cannot be read, no training or validation file, or a TASK-bin that is
            something else.
    """
    folder = args.glue / task.name if (args.glue / task.name).is_dir() else args.glue
    files = {split: path for split in task.splits if (path := file_of(folder, task, split))}
    for split in ("train", "valid"):
        if split not in files:
            name = f"{task.splits[split]}.tsv"
            raise UserError(f"{folder} has no {name} or {name}.gz: is this the folder of {task.name}?")
    summary = {}
    with new_folder(args.output / f"{task.name}-bin", replaces=SUMMARY) as target:
        (target / "label").mkdir()
        if task.labels:
            write_lines(target / "label" / "dict.txt", (f"{name} 1" for name in task.labels))
        for split, path in files.items():
            rows, skipped = read_split(path, task, split, args.skip_broken)
            kept = rows
            if split == "train" and args.train_rows is not None and args.train_rows < len(rows):
                kept = rows.iloc[sorted(random.Random(1).sample(range(len(rows)), args.train_rows))]
            tokens = 0
            for i, column in enumerate(task.sentences):
                encoded = encoder.encode(list(kept[column]), [f"{path}, line {line}" for line in kept.index])
                sentences = ([*ids, encoder.eos] for ids in encoded)
                write_dataset(target / f"input{i}" / split, sentences, encoder.size)
                tokens += sum(map(len, encoded))
            _write_labels(target, task, split, kept, encoder.eos)
            summary[split] = {
                "file": path.name,
                "rows": len(rows),
                "official": task.official[split],
                "skipped_lines": skipped,
                "empty_sentences": int((rows[list(task.sentences)] == "").sum().sum()),
                "kept": len(kept),
                "tokens": tokens,
            }
        for i in range(len(task.sentences)):
            shutil.copyfile(encoder.dictionary_path, target / f"input{i}" / "dict.txt")
        write_json(target / SUMMARY, summary)
    return summary


def file_of(folder: Path, task: Task, split: str) -> Path | None:
    """The file of a split, by our name for it, in a task's folder; None if there is none."""
    names = (f"{task.splits[split]}.tsv", f"{task.splits[split]}.tsv.gz")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def read_split(path: Path, task: Task, split: str, skip_broken: bool) -> tuple[pd.DataFrame, list[int]]:
    """The rows of a file, labelled by their lines from 1, and the lines that were skipped.

    pandas would read the file itself, but pad short rows, shift columns and drop empty lines in silence.

    Args:
        path: of :func:`file_of`.
        skip_broken: skip rows of a training set whose number of columns is not the header's.

    Raises:
        UserError: for a missing column, a broken row, or a label that the task does not have.
    """
    labelled = not split.startswith("test")
    lines = {number: line.split("\t") for number, line in lines_of(path)}
    columns = list(COLA_COLUMNS) if task.name == "CoLA" and labelled else lines.pop(1, [])
    for column in (*task.sentences, *([task.label] if labelled else [])):
        if column not in columns:
            shown = ", ".join(columns)
            shown = shown if len(shown) <= LONGEST_SHOWN else shown[:LONGEST_SHOWN] + "..."
            raise UserError(f"{path}, line 1: {task.name} needs a column {column!r}; the columns are {shown}")
    broken = [number for number, fields in lines.items() if len(fields) != len(columns)]
    if broken and not (skip_broken and split == "train"):
        way_out = " (or skip such rows: --skip-broken)" if split == "train" else ""
        found = f"{len(lines[broken[0]])} columns, expected {len(columns)}"
        raise UserError(
            f"{path}, line {broken[0]}: {found}: GLUE's files are not quoted; if a program added quotes, "
            f"download the file again{way_out}"
        )
    for number in broken:
        del lines[number]
    if not lines:
        raise UserError(f"{path} has no rows")
    rows = pd.DataFrame(list(lines.values()), index=list(lines), columns=columns, dtype=object)
    for column in task.sentences:
        rows[column] = rows[column].str.strip()
    if labelled:
        labels, known = rows[task.label], ", ".join(task.labels)
        wrong = ~labels.isin(task.labels)
        if task.regression:
            wrong = ~pd.to_numeric(labels, errors="coerce").between(*SCORES)
            known = f"{SCORES[0]:g} to {SCORES[1]:g}"
        if wrong.any():
            line = wrong.idxmax()
            raise UserError(f"{path}, line {line}: label {labels[line]!r}, but {task.name} has {known}")
    return rows, broken


def _write_labels(target: Path, task: Task, split: str, rows: pd.DataFrame, eos: int) -> None:
    """Classes, scores, or GLUE's numbers of a test set."""
    if split.startswith("test"):
        numbers = next((rows[name] for name in ("index", "id") if name in rows), range(len(rows)))
        write_lines(target / f"{split}.index", map(str, numbers))
    elif task.regression:
        write_lines(target / "label" / f"{split}.label", rows[task.label])
    else:
        classes = {name: i for i, name in enumerate(task.labels, len(SPECIAL))}
        labels = ([classes[label], eos] for label in rows[task.label])
        write_dataset(target / "label" / split, labels, len(SPECIAL) + len(classes))


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    add("glue", type=Path, metavar="GLUE", help="folder with a folder per task")
    add("output", type=Path, metavar="OUTPUT", help="folder to write TASK-bin into")
    add_encoder_arguments(parser)
    add("--tasks", nargs="+", metavar="TASK", help=f"of {', '.join(TASKS)} (default: those in GLUE)")
    add("--train-rows", type=positive, metavar="N", help="draw N rows of each training set")
    add("--skip-broken", action="store_true", help="skip training rows with a wrong number of columns")
    args = parser.parse_args(argv)
    if not args.glue.is_dir():
        raise UserError(f"the folder {args.glue} does not exist")
    tasks = [*map(task_named, args.tasks or [name for name in TASKS if (args.glue / name).is_dir()])]
    if not tasks:
        raise UserError(f"{args.glue} has no folder of a task: {', '.join(TASKS)}")
    encoder = encoder_of(args)
    for task in tasks:
        summary = binarise(task, args, encoder)
        print(f"{task.name} -> {args.output / task.name}-bin")
        print(pd.DataFrame(summary).T.drop(columns="file").to_string(), flush=True)
    if encoder.unknown:
        print(f"{encoder.unknown:,} tokens missing from {encoder.dictionary_path} became <unk>")


if __name__ == "__main__":
    sys.exit(main())
