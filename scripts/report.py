"""Writes a report of results beside the paper's numbers: report.md with its pictures, and report.html, which
is self-contained.

    python scripts/report.py runs/smoke
    python scripts/report.py ExLM=runs/exlm MLM=runs/mlm --output runs/report

OUTPUT is a folder of the workflow. The report has whatever it holds of the study (figures 3, 4, 5, 8, 9 and
12, tables 2, 4, 12 and 13, the case study), tables 1, 3 and 9, also while the workflow runs. NAME=DIR is a
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
from lib.study.results import SEEDS, STUDY

PARTS = ("study", "table1", "table3", "settings.json")  # one of which a folder of the workflow has
MOST_PROBLEMS = 10  # shown
TITLE = "ExLM: the paper's results and ours"


def named(given: str) -> tuple[str, Path]:
    """Name and folder of an OUTPUT or a NAME=DIR.

    Raises:
        UserError: if there is no such folder.
    """
    name, equals, path = given.partition("=")
    if not equals or Path(given).is_dir():
        name, path = Path(given).resolve().name, given
    if not (name and path and Path(path).is_dir()):
        raise UserError(f"{given}: give a folder that exists, or NAME=DIR")
    return name, Path(path)


def page(folders: list[tuple[str, Path]], asked: tuple[int, ...]) -> Section:
    """The report of folders with their names.

    Args:
        asked: seeds of fine-tuning that each result should have, if its folder does not say.

    Raises:
        UserError: if a folder holds no results, or two are of one model, task and seed.
    """
    problems: list[str] = []
    studies, sections, found = [], [], []

    def add(name: str, folder: Path, seeds: int, points: dict[str, int], table: str = "") -> None:
        part = frame.finetunings(name, folder, problems)
        if not table and part.empty and not problems:
            raise UserError(
                f"{folder} holds no results: give a folder of the workflow, or one with the result.json of "
                "fine-tunings"
            )
        part = part.assign(expected=seeds, points=part["task"].map(points))
        for other in found:
            if set(other["model"]) & set(part["model"]) and set(other["table"]) & set(part["table"]):
                raise UserError(
                    f"two models are named {name}, one in {folder}: give each its name by NAME=DIR"
                )
        found.append(part)

    for name, folder in folders:
        if not any((folder / part).exists() for part in PARTS):
            add(name, folder, len(asked), {})
            continue
        settings = frame.read(folder / "settings.json", problems)
        if (folder / STUDY).is_dir():
            studies.append(Study(folder, problems))
        for table in ("table1", "table3"):
            seeds = len(settings.get("finetune_seeds") or asked or (SEEDS[table] if settings else ()))
            for model in sorted(path for path in (folder / table).glob("*") if path.is_dir()):
                add(model.name, model, seeds, settings.get("points", {}), table)
        if "table9" in settings.get("targets", ()):
            sections.append(finetunings.table9(settings["moleculenet"], problems))
    results = pd.concat([part for part in found if len(part)] or [frame.finetunings("", Path(), [])])
    for table, part in results.reset_index(drop=True).groupby("table"):
        made = finetunings.table1 if table == "table1" else finetunings.table3
        sections += made(part.dropna(axis="columns", how="all"))
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
    output = args.output or given[0][1]
    if output.exists() and not output.is_dir():
        raise UserError(f"--output {output} is not a folder")
    report = page(given, args.seeds)
    output.mkdir(parents=True, exist_ok=True)
    for path in report.write(output):
        print(path)


def main(argv: list[str] | None = None) -> int:
    return run_main(lambda: run(argv))


if __name__ == "__main__":
    sys.exit(main())
