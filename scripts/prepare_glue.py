"""GLUE's files to what fairseq fine-tunes on, with the BPE and the dictionary of a pre-training.

    python scripts/prepare_glue.py glue glue-bin --data data-bin/text
    python scripts/prepare_glue.py glue glue-bin --dict dict.txt --bpe encoder.json vocab.bpe --tasks CoLA RTE

GLUE is a folder of folders, glue/RTE/{train,dev,test}.tsv, plain or .gz, as gluebenchmark.com hands them
out (MRPC also as msr_paraphrase_{train,test}.txt with GLUE's dev_ids.tsv). Written are glue-bin/RTE-bin and
so on; docs/glue.md has the rest. A task is written whole or not at all.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from recipes.corpora.blocks import PreparationError, explained, locked
from recipes.corpora.encoder_arguments import add_encoder_arguments, encoder_of
from recipes.glue.binarise import binarise
from recipes.glue.files import LISTED, GlueError
from recipes.glue.tasks import TASKS, Task, task_named


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    add = result.add_argument
    add("glue", type=Path, metavar="GLUE", help="folder of the tasks' folders")
    add("output", type=Path, metavar="OUTPUT", help="folder to write TASK-bin into")
    add_encoder_arguments(result)
    add("--tasks", nargs="+", metavar="TASK", help=f"of {', '.join(TASKS)} (default: those that are there)")
    add("--train-rows", type=positive, metavar="N", help="draw N rows of each training set, to try things")
    add("--skip-broken", action="store_true", help="leave out training rows of a wrong number of columns")
    return result


def positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}': give a whole number, 1 or more")
    return int(text)


def tasks_of(args) -> list[Task]:
    if args.tasks:
        return [task_named(name) for name in args.tasks]
    if not args.glue.is_dir():
        raise GlueError(f"there is no folder {args.glue}")
    found = [task for task in TASKS.values() if (args.glue / task.name).is_dir()]
    if not found:
        raise GlueError(f"{args.glue} has no folder of a task: {', '.join(TASKS)}")
    return found


def described(split: str, found: dict) -> str:
    rows, official = found["rows"], found["official"]
    text = f"  {split:7}{rows:9,} rows"
    text += " (all)" if rows == official else f" (official: {official:,})"
    if found["kept"] != rows:
        text += f", {found['kept']:,} drawn"
    text += f", {found['tokens']:,} tokens"
    if found["empty_sentences"]:
        text += f", {found['empty_sentences']} empty sentences"
    if skipped := found["skipped_lines"]:
        named = ", ".join(map(str, skipped[:LISTED])) + (", ..." if len(skipped) > LISTED else "")
        text += f"; left out as broken: {len(skipped)} (lines {named})"
    return text


def main(argv=None) -> int:
    args = parser().parse_args(argv)
    try:
        tasks, encoder = tasks_of(args), encoder_of(args)
        with locked(args.output):
            for task in tasks:
                summary = binarise(task, args.glue, args.output, encoder, args.skip_broken, args.train_rows)
                print(f"{task.name} -> {args.output / task.name}-bin")
                for split, found in summary.items():
                    print(described(split, found), flush=True)
        if encoder.unknown:
            print(f"{encoder.unknown:,} tokens are unknown to {encoder.dictionary_path} and became <unk>")
    except (ValueError, PreparationError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        place = Path(error.filename or args.output / "TASK-bin")
        print(f"error: {explained(error, place)}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\ninterrupted: give the same command again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
