"""Writes a report of results beside the paper's numbers: report.md with its pictures, and report.html, which
is self-contained.

    python scripts/report.py runs/smoke
    python scripts/report.py ExLM=runs/exlm MLM=runs/mlm --output runs/report

OUTPUT is a folder of the workflow. The report has whatever it holds of the study (figures 3, 4, 5, 8, 9 and
12, tables 2, 4, 12 and 13), table 1 and table 3, also while the workflow is still running. NAME=DIR is a
model whose results were made by hand; DIR is searched for the result.json of finetune_glue.sh,
finetune_squad.sh, finetune_moleculenet.sh and baseline_moleculenet.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd
from lib.command_line import UserError, argument_parser, run_main, seeds
from lib.report import finetunings, frame, study_tables
from lib.report.page import Section
from lib.report.study import Study

PARTS = ("study", "table1", "table3")  # of a folder of the workflow
MOST_PROBLEMS = 10  # shown
TITLE = "ExLM: the paper's results and ours"


def named(given: str) -> tuple[str, Path]:
    """Name and folder of an OUTPUT or a NAME=DIR.

    Raises:
        UserError: if there is no such folder.
    """
    name, equals, path = given.partition("=")
    if equals and not (name and path):
        raise UserError(f"{given!r}: give NAME=DIR, or the folder alone")
    if not equals or Path(given).is_dir():
        name, path = Path(given).resolve().name, given
    if not Path(path).is_dir():
        raise UserError(f"{path} is not a folder" if Path(path).exists() else f"{path} does not exist")
    return name, Path(path)


def page(folders: dict[str, Path], asked: tuple[int, ...]) -> Section:
    """The report of folders by their names.

    Args:
        asked: seeds of fine-tuning that each result should have, if its folder does not say.

    Raises:
        UserError: if a folder holds no results, or two are of one model, task and seed.
    """
    problems: list[str] = []
    studies, found = [], [frame.finetunings("", Path("no folder"), problems)]
    expected: dict[str, dict[str, int]] = {"table1": {}, "table3": {}}
    grids = {}

    def add(name: str, folder: Path, table: str, seeds: int) -> None:
        """The results of a model for a table, or for both."""
        for counts in expected.values() if table == "" else [expected[table]]:
            if name in counts:
                raise UserError(
                    f"two models are named {name}, one in {folder}: give each its name by NAME=DIR"
                )
            counts[name] = seeds
        found.append(frame.finetunings(name, folder, problems))

    for name, folder in folders.items():
        if not any((folder / part).is_dir() for part in PARTS):
            add(name, folder, "", len(asked))
            if found[-1].empty and not problems:
                raise UserError(
                    f"{folder} holds no results: give a folder of the workflow (with {', '.join(PARTS)}), or "
                    "one with result.json of the fine-tuning scripts"
                )
            continue
        settings = frame.read(folder / "settings.json", problems)
        if (folder / "study").is_dir():
            studies.append(Study(folder, problems))
        for table in expected:
            seeds = len(settings.get("seeds", {}).get(table, ())) or len(asked)
            for model in sorted(path for path in (folder / table).glob("*") if path.is_dir()):
                add(model.name, model, table, seeds)
                if table == "table3":
                    grids[model.name] = settings.get("fixed", {}).get("table3", {}).get("grid")
    results = pd.concat(found, ignore_index=True)
    parts = {table: results[results["table"] == table] for table in expected}
    sections = finetunings.table1(parts["table1"], expected["table1"]) if len(parts["table1"]) else []
    if len(parts["table3"]):
        sections.append(finetunings.table3(parts["table3"], expected["table3"], grids))
    for i, study in enumerate(studies, 1):
        several = len(studies) > 1
        title = f"The study of [MASK]{f': {study.output}' if several else ''}"
        sections.append(study_tables.section(study, title, f"study{i}-" if several else ""))
    blocks = []
    if problems := list(dict.fromkeys(problems)):
        more = [f"{len(problems) - MOST_PROBLEMS:,} more"] if len(problems) > MOST_PROBLEMS else []
        blocks = ["Damaged or unused results:", [*problems[:MOST_PROBLEMS], *more]]
    return Section(TITLE, blocks, sections)


def run(argv: list[str] | None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    what = "folders of the workflow, or of results by hand"
    add("results", nargs="+", metavar="OUTPUT|NAME=DIR", help=what)
    add("--output", type=Path, metavar="DIR", help="write the report there (default: into the first folder)")
    what = "seeds that each result by hand should have (default: all that any of them has)"
    add("--seeds", type=seeds, default=(), metavar="1,2,3", help=what)
    args = parser.parse_args(argv)
    given = [named(one) for one in args.results]
    folders = dict(given)
    if len(folders) < len(given):
        name = next(name for i, (name, _) in enumerate(given) if name in dict(given[:i]))
        raise UserError(f"two folders are named {name}: give each its own name by NAME=DIR")
    output = args.output or given[0][1]
    if output.exists() and not output.is_dir():
        raise UserError(f"--output {output} is not a folder")
    report = page(folders, args.seeds)
    output.mkdir(parents=True, exist_ok=True)
    for path in report.write(output):
        print(path)


def main(argv: list[str] | None = None) -> int:
    return run_main(lambda: run(argv))


if __name__ == "__main__":
    sys.exit(main())
