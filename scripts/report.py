"""Writes a report of results beside the paper's numbers: report.md with its pictures, and report.html, which
is self-contained.

    python scripts/report.py runs/smoke
    python scripts/report.py ExLM=runs/exlm MLM=runs/mlm --output runs/report

OUTPUT is a folder of the workflow. The report has whatever it holds of the study (figures 3, 4, 5, 8, 9 and
12, tables 2, 4, 12 and 13, the case study), tables 1, 3 and 9, also while the workflow runs. NAME=DIR is a
model whose results were made by hand; DIR is searched for the result.json of finetune_glue.sh,
finetune_squad.sh, finetune_moleculenet.sh and baseline_moleculenet.py.
"""

from datetime import date
from pathlib import Path

import lib  # noqa: F401  (finds the environment)
import pandas as pd
from lib.command_line import UserError, argument_parser, script
from lib.files import MANIFEST, RESULT
from lib.report.comparisons import add_comparison
from lib.report.finetunings import add_table9, add_tables
from lib.report.page import Page
from lib.report.study import Study, add_target, read
from lib.workflow.plan import SEEDS, STUDY
from lib.workflow.runs import targets

TITLE = "ExLM: the paper's results and ours"
ABOUT = (
    "Ours are means over seeds ± the sample standard deviation; (n=3) is the number of seeds, (n=2 of 3) "
    "says that one is missing. Without a bracket there is one seed; - says that there is no result."
)
SMOKE = (
    "Size smoke shows that everything runs. Its numbers mean nothing: don't compare them with the paper's."
)


def named(given: str) -> tuple[str, Path]:
    """Name and folder of an OUTPUT or a NAME=DIR. Raises UserError if there is no such folder."""
    name, equals, path = given.partition("=")
    if not equals or Path(given).is_dir():
        name, path = Path(given).resolve().name, given
    if not (name and path and Path(path).is_dir()):
        raise UserError(f"{given}: give a folder that exists, or NAME=DIR")
    return name, Path(path)


def report(folders: list[tuple[str, Path]]) -> Page:
    """The report of folders with their names; those of the workflow have a settings.json. Raises UserError if
    a folder holds no results, or two are of one model, task and seed."""
    page, problems, models, grid = Page(TITLE), [], [], None
    settings = {path: read(path / "settings.json", problems) for _, path in folders}
    if any(asked.get("size") == "smoke" and (path / STUDY).is_dir() for path, asked in settings.items()):
        page.warn(SMOKE)
    page.text(ABOUT)
    page.table(pd.DataFrame([made_of(path, settings[path], problems) for path in settings]).fillna("-"))
    labels = {run.name: run.label for target in targets().values() for run in target.runs}
    for name, path in folders:
        models += [] if settings[path] else [(name, path, 0)]
        for model in sorted(path.glob("table[13]/*")) if settings[path] else ():
            seeds = settings[path].get("finetune_seeds") or SEEDS[model.parent.name]
            models.append((labels.get(model.name, model.name), model, len(seeds)))
            grid = settings[path].get("fixed", {}).get("grid", ())[:2]
    sets = [asked["moleculenet"] for asked in settings.values() if "table9" in asked.get("targets", ())]
    add_tables(page, models, grid, problems)
    for prepared in sets:
        add_table9(page, prepared, problems)
    studies = [Study(path, problems) for path in settings if settings[path] and (path / STUDY).is_dir()]
    for i, study in enumerate(studies, 1):
        page.heading(2, f"The study of [MASK] in {study.output}")
        prefix = f"study{i}-" if i > 1 else ""  # of pictures
        for name in study.settings.get("targets", ()):
            target = study.targets.get(name)
            if not target or (target.of_the_paper and not target.of_the_study):
                continue
            page.heading(3, target.title)
            page.text(target.note)
            add = add_target if target.of_the_study else add_comparison
            add(page, study, target, f"{prefix}{name}")
    if problems:
        page.items(["Damaged or unused results:", *dict.fromkeys(problems)])
        page.parts.insert(0, page.parts.pop())  # at the top
    page.terms()
    return page


def made_of(path: Path, settings: dict, problems: list[str]) -> dict[str, str]:
    """A row on the results in a folder: what of, when, from which commits."""
    trained = [read(file, problems) for file in path.glob("study/*/*/*/train.json")]
    results = [*path.glob("study/*/*/*/train.json"), *path.rglob(RESULT)]
    commits = {str(read(file, problems).get("commit"))[:12] for file in path.rglob(MANIFEST)}
    days = sorted(date.fromtimestamp(file.stat().st_mtime).isoformat() for file in results)
    updates = sorted({training["updates"] for training in trained if training})
    data = settings.get("data") or settings.get("smiles")
    row = {"results": str(path), "size": settings.get("size", "-"), "pre-trainings": f"{len(trained)}"}
    row["updates"] = " to ".join(dict.fromkeys(f"{number:,}" for number in updates[:1] + updates[-1:])) or "-"
    row["seeds"] = ", ".join(map(str, settings.get("seeds", ()))) or "-"
    row["data"] = data or ("CPython's documentation" if trained else "-")
    row["fine-tunings"] = f"{len(results) - len(trained)}"
    row["commit"] = ", ".join(sorted(commits)) or "-"
    row["date"] = " to ".join(dict.fromkeys(days[:1] + days[-1:])) or "-"
    return row


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    add = parser.add_argument
    what = "folders of the workflow, or of results by hand"
    add("results", nargs="+", metavar="OUTPUT|NAME=DIR", help=what)
    add("--output", type=Path, metavar="DIR", help="write the report there (default: into the first folder)")
    args = parser.parse_args(argv)
    given = [named(text) for text in args.results]
    output = args.output or given[0][1]
    page = report(given)
    output.mkdir(parents=True, exist_ok=True)
    for path in page.write(output):
        print(path)
