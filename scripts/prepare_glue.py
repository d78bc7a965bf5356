"""Prepares GLUE for fine-tuning, with the BPE and the dictionary of a pre-training.

    python scripts/prepare_glue.py glue glue-bin --data data-bin/text
    python scripts/prepare_glue.py glue glue-bin --dictionary dict.txt --bpe encoder.json vocab.bpe \\
        --tasks CoLA RTE

GLUE has a folder per task, glue/RTE/{train,dev,test}.tsv, plain or .gz, as from gluebenchmark.com. Writes
glue-bin/RTE-bin and so on; a task is written completely or not at all. See docs/finetune.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pandas as pd
from lib.command_line import UserError, argument_parser, positive, script
from lib.corpora.arguments import add_encoder_arguments, encoder_of
from lib.files import locked
from lib.glue.binarise import binarise
from lib.glue.tasks import TASKS, Task, task_named


def parser() -> argparse.ArgumentParser:
    result = argument_parser(__doc__)
    add = result.add_argument
    add("glue", type=Path, metavar="GLUE", help="folder with a folder per task")
    add("output", type=Path, metavar="OUTPUT", help="folder to write TASK-bin into")
    add_encoder_arguments(result)
    add("--tasks", nargs="+", metavar="TASK", help=f"of {', '.join(TASKS)} (default: those in GLUE)")
    add("--train-rows", type=positive, metavar="N", help="draw N rows of each training set")
    add("--skip-broken", action="store_true", help="skip training rows with a wrong number of columns")
    return result


def tasks_of(args: argparse.Namespace) -> list[Task]:
    if args.tasks:
        return [task_named(name) for name in args.tasks]
    if not args.glue.is_dir():
        raise UserError(f"the folder {args.glue} does not exist")
    found = [task for task in TASKS.values() if (args.glue / task.name).is_dir()]
    if not found:
        raise UserError(f"{args.glue} has no folder of a task: {', '.join(TASKS)}")
    return found


@script
def main(argv: list[str] | None = None) -> None:
    args = parser().parse_args(argv)
    tasks, encoder = tasks_of(args), encoder_of(args)
    with locked(args.output, "OUTPUT"):
        for task in tasks:
            summary = binarise(task, args.glue, args.output, encoder, args.skip_broken, args.train_rows)
            print(f"{task.name} -> {args.output / task.name}-bin")
            print(pd.DataFrame(summary).T.drop(columns="file").to_string(), flush=True)
    if encoder.unknown:
        print(f"{encoder.unknown:,} tokens missing from {encoder.dictionary_path} became <unk>")


if __name__ == "__main__":
    sys.exit(main())
