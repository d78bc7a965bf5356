"""Prepares GLUE for fine-tuning, with the BPE and the dictionary of a pre-training.

    python scripts/prepare_glue.py glue glue-bin --data data-bin/text
    python scripts/prepare_glue.py glue glue-bin --dictionary dict.txt --bpe encoder.json vocab.bpe \\
        --tasks CoLA RTE

GLUE has a folder per task, as from gluebenchmark.com: glue/RTE/{train,dev,test}.tsv, plain or .gz. Writes
glue-bin/RTE-bin and so on; a task is written completely or not at all. See docs/finetune.md.
"""

import argparse
from pathlib import Path

import pandas as pd
from lib.command_line import SEVERAL, UserError, argument_parser, counted, script
from lib.data.bpe import TextEncoder, add_encoder_arguments, copy_bpe, encoder_of
from lib.data.datasets import write_dataset
from lib.files import write_lines
from lib.glue import NUMBERS, TASKS, Task, file_of, read_split, task_named

from fs_plugins.data.vocabulary import SPECIAL, copy_dictionary
from fs_plugins.files import new_folder, write_json

SUMMARY = "summary.json"


def binarise(task: Task, args: argparse.Namespace, encoder: TextEncoder) -> dict[str, dict]:
    """Writes OUTPUT/TASK-bin, completely or not at all: besides fairseq's files SPLIT.index of the test sets
    (GLUE's number of each row) and summary.json, of each split what is returned. Raises UserError if
    there is no training or validation file."""
    folder = args.glue / task.name
    files = {split: path for split in task.splits if (path := file_of(folder, task, split))}
    if not {"train", "valid"} <= files.keys():
        names = " or ".join(f"{task.splits[split]}.tsv or .gz" for split in ("train", "valid"))
        raise UserError(f"{folder} has no {names}: is this the folder of {task.name} in GLUE?")
    summary, replaces = {}, SUMMARY if args.overwrite else None
    with new_folder(args.output / f"{task.name}-bin", replaces) as target:
        (target / "label").mkdir()
        if task.labels:
            write_lines(target / "label" / "dict.txt", (f"{name} 1" for name in task.labels))
        for split, path in files.items():
            table, skipped = read_split(path, task, split, args.skip_broken)
            where, tokens = [f"{path}, line {line}" for line in table.index], 0
            for i, column in enumerate(task.sentences):
                encoded = encoder.encode(list(table[column]), where)
                sentences = ([*ids, encoder.eos] for ids in encoded)
                write_dataset(target / f"input{i}" / split, sentences, encoder.size)
                tokens += sum(map(len, encoded))
            _write_labels(target, task, split, table, encoder.eos)
            summary[split] = {
                "file": path.name,
                "rows": len(table),
                "official": task.official[split],
                "skipped_lines": skipped,
                "empty_sentences": int((table[list(task.sentences)] == "").sum().sum()),
                "tokens": tokens,
            }
        for i in range(len(task.sentences)):
            copy_dictionary(encoder.dictionary_path, target / f"input{i}" / "dict.txt")
        copy_bpe(encoder.bpe, target)
        write_json(target / SUMMARY, summary)
    return summary


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
    add("--tasks", **SEVERAL, metavar="TASK", help=f"of {', '.join(TASKS)} (default: those in GLUE)")
    add("--skip-broken", action="store_true", help="skip training rows without a label, as those cut short")
    add("--overwrite", action="store_true", help="replace an existing TASK-bin")
    args = parser.parse_args(argv)
    tasks = [task_named(name) for name in args.tasks or TASKS if args.tasks or (args.glue / name).is_dir()]
    if not tasks:
        raise UserError(f"{args.glue} has no folder of a task: {', '.join(TASKS)}")
    encoder = encoder_of(args)
    for task in tasks:
        summary = binarise(task, args, encoder)
        print(f"{task.name} -> {args.output / task.name}-bin")
        print(pd.DataFrame(summary).T.drop(columns="file").to_string(), flush=True)
    if encoder.unknown:
        unknown = counted(encoder.unknown, "token")
        print(f"{unknown} missing from {encoder.dictionary_path} became <unk>")
