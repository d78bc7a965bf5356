"""Prepares GLUE for fine-tuning, with the BPE and the dictionary of a pre-training.

    python scripts/prepare_glue.py glue glue-bin --data data-bin/text
    python scripts/prepare_glue.py glue glue-bin --dictionary dict.txt --bpe encoder.json vocab.bpe \\
        --tasks CoLA RTE

GLUE has a folder per task: glue/RTE/{train,dev,test}.tsv, plain or .gz, as from gluebenchmark.com, or
glue/rte/{train,validation,test}-*.parquet, as on the Hugging Face hub. Writes glue-bin/RTE-bin and so on; a
task is written completely or not at all. See docs/finetune.md.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import lib  # noqa: F401  (finds the environment)
import pandas as pd
from lib.command_line import UserError, argument_parser, counted, script
from lib.data.bpe import TextEncoder, add_encoder_arguments, copy_bpe, encoder_of
from lib.data.datasets import write_dataset
from lib.files import write_lines
from lib.finetuning.glue.rows import NUMBERS, Rows, files_of, folder_of, read_split
from lib.finetuning.glue.tasks import TASKS, Task, task_named

from fs_plugins.data.vocabulary import SPECIAL, copy_dictionary
from fs_plugins.files import new_folder, write_json

SUMMARY = "summary.json"


def binarise(task: Task, args: argparse.Namespace, encoder: TextEncoder) -> dict[str, dict]:
    """Writes OUTPUT/TASK-bin, completely or not at all: besides fairseq's files SPLIT.index of the test sets
    (GLUE's number of each row) and summary.json, of each split what is returned. Raises UserError if
    there is no training or validation file."""
    folder = folder_of(args.glue, task) or args.glue / task.name
    files = {split: paths for split in task.splits if (paths := files_of(folder, task, split))}
    if not {"train", "valid"} <= files.keys():
        names = " or ".join(f"{task.splits[split]}.tsv, .gz or Parquet" for split in ("train", "valid"))
        raise UserError(f"{folder} has no {names}: is this the folder of {task.name} in GLUE?")
    summary, trained, replaces = {}, set(), SUMMARY if args.overwrite else None
    with new_folder(args.output / f"{task.name}-bin", replaces) as target:
        (target / "label").mkdir()
        if task.labels:
            write_lines(target / "label" / "dict.txt", (f"{name} 1" for name in task.labels))
        for split, paths in files.items():
            rows = read_split(paths, task, split, args.skip_broken)
            table, tokens = rows.table, 0
            remarks = _remarks_on(task, split, rows, trained)
            trained |= set(_sentences(task, table)) if split == "train" else set()
            for i, column in enumerate(task.sentences):
                encoded = encoder.encode(list(table[column]), list(map(rows.where, table.index)))
                sentences = ([*ids, encoder.eos] for ids in encoded)
                write_dataset(target / f"input{i}" / split, sentences, encoder.size)
                tokens += sum(map(len, encoded))
            _write_labels(target, task, split, table, encoder.eos)
            summary[split] = {
                "files": [path.name for path in paths],
                "rows": len(table),
                "official": task.official[split],
                "skipped_lines": rows.skipped,
                "empty_sentences": int((table[list(task.sentences)] == "").sum().sum()),
                "tokens": tokens,
                "remarks": remarks,
            }
        for i in range(len(task.sentences)):
            copy_dictionary(encoder.dictionary_path, target / f"input{i}" / "dict.txt")
        copy_bpe(encoder.bpe, target)
        write_json(target / SUMMARY, summary)
    return summary


def _sentences(task: Task, rows: pd.DataFrame) -> Iterator[tuple[str, ...]]:
    return rows[[*task.sentences]].itertuples(index=False, name=None)


def _remarks_on(task: Task, split: str, rows: Rows, trained: set[tuple]) -> list[str]:
    """Returns what to report of a split whose labels are all the same, or most of whose rows are ``trained``
    on. Raises UserError if those of the training set are the same, or most rows have no sentence."""
    table = rows.table
    for column in task.sentences:
        if (empty := table[column] == "").mean() > 0.5:
            shown = f"{column} is empty, as in {empty.sum():,} of {counted(len(table), 'row')}"
            raise UserError(f"{rows.where(empty.idxmax())}: {shown}: are the columns in GLUE's order?")
    remarks = []
    if task.label in table:
        labels = table[task.label].astype("float32") if task.regression else table[task.label]
        if labels.nunique() == 1:
            remarks.append(f"no label but {labels.iloc[0]} in {counted(len(table), 'row')}")
    if remarks and split == "train":
        raise UserError(f"{rows.files[0]}: {remarks[0]}, so that nothing could be learned: give more")
    if (known := sum(map(trained.__contains__, _sentences(task, table)))) > len(table) / 2:
        of = f"{known:,} of {counted(len(table), 'row')}"
        remarks.append(f"in train too: {of}, so its scores are too optimistic")
    return remarks


def _write_labels(target: Path, task: Task, split: str, rows: pd.DataFrame, eos: int) -> None:
    """Writes classes, scores, or GLUE's numbers of a test set."""
    if split.startswith("test"):
        numbers = next((rows[name] for name in NUMBERS if name in rows), range(len(rows)))
        write_lines(target / f"{split}.index", map(str, numbers))
    elif task.regression:
        write_lines(target / "label" / f"{split}.label", map(str, rows[task.label].astype("float32")))
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
    add("--skip-broken", action="store_true", help="skip training rows with a wrong number of columns")
    add("--overwrite", action="store_true", help="replace an existing TASK-bin")
    args = parser.parse_args(argv)
    there = [name for name, task in TASKS.items() if folder_of(args.glue, task)]
    tasks = [*map(task_named, args.tasks or there)]
    if not tasks:
        raise UserError(f"{args.glue} has no folder of a task: {', '.join(TASKS)}")
    encoder = encoder_of(args)
    for task in tasks:
        summary = binarise(task, args, encoder)
        print(f"{task.name} -> {args.output / task.name}-bin")
        print(pd.DataFrame(summary).T.drop(columns=["files", "remarks"]).to_string(), flush=True)
        for split, about in summary.items():
            print(*(f"  {split}: {remark}\n" for remark in about["remarks"]), sep="", end="")
    if encoder.unknown:
        unknown = counted(encoder.unknown, "token")
        print(f"{unknown} missing from {encoder.dictionary_path} became <unk>")
