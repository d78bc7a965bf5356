"""Writes a report of results beside the paper's numbers: report.md, and its pictures.

    python scripts/report.py runs/smoke

OUTPUT is a folder of the workflow. The report has whatever it holds of the study (figures 3, 4, 5, 8, 9 and
12, tables 2, 4, 12 and 13, the case study), tables 1, 3 and 9, also while the workflow runs.
"""

from datetime import date
from pathlib import Path

import lib  # noqa: F401  (finds the environment)
import pandas as pd
from lib.command_line import argument_parser, counted, script
from lib.files import MANIFEST, RESULT
from lib.report.finetunings import add_sets, add_tables
from lib.report.page import Page
from lib.report.study import Study, add_target, read
from lib.run.logs import read_log
from lib.workflow.benchmarks import BENCHMARKS
from lib.workflow.plan import STUDY

TITLE = "ExLM: the paper's results and ours"
ABOUT = (
    "Ours are means over seeds ± the sample standard deviation; (n=3) is the number of seeds, (n=2 of 3) "
    "says that one is missing. Without a bracket there is one seed; - says that there is no result. Terms "
    "are explained in docs/glossary.md."
)
SMOKE = (
    "Size smoke shows that everything runs. Its numbers mean nothing: don't compare them with the paper's."
)


def report(output: Path) -> Page:
    """Returns the report of a folder of the workflow."""
    page, problems = Page(TITLE), []
    settings = read(output / "settings.json", problems)
    if settings.get("size") == "smoke" and (output / STUDY).is_dir():
        page.warn(SMOKE)
    page.text(ABOUT)
    names = ("train.json", RESULT)
    results = {path: read(path, problems) for name in names for path in sorted(output.rglob(name))}
    page.table(pd.DataFrame([made_of(output, settings, results, problems)]))
    page.items(trainings(output, results))
    add_tables(page, output, settings, problems)
    for name, benchmark in BENCHMARKS.items():
        if benchmark.sets_table in settings.get("targets", ()):
            add_sets(page, benchmark.sets_table, settings[name], problems)
    if (output / STUDY).is_dir():
        page.heading(2, "The study of [MASK]")
        add_study(page, Study(output, problems))
    if problems:
        page.items(["Damaged or unused results:", *dict.fromkeys(problems)])
        page.parts.insert(0, page.parts.pop())  # moved to the top
    return page


def trainings(output: Path, results: dict[Path, dict]) -> list[str]:
    """Returns a line on each pre-training that is under way, and on each training that something else ended
    than its updates, or its epochs."""
    lines = []
    for log in sorted(output.glob(f"{STUDY}/*/*/*/train.log")):
        if log.with_name("train.json") not in results:
            updates = max((record["update"] for record in read_log(log)), default=0)
            lines.append(f"{log.parent}: {counted(updates, 'update')} so far")
    for path, content in results.items():
        ended, usual = content.get("ended"), "--max-epoch" if path.name == RESULT else "--max-update"
        if ended and ended["by"] != usual:
            updates = counted(ended["updates"], "update")
            lines.append(f"{path.parent}: {ended['by']} {ended['limit']} ended it after {updates}")
        elif "ended" in content and not ended and content.get("checkpoint", True):
            lines.append(f"{path.parent}: its training was not finished")
    return lines


def add_study(page: Page, study: Study) -> None:
    """Adds the figures and tables that were asked for."""
    for name in study.settings.get("targets", ()):
        target = study.targets.get(name)
        if not target or target.of_benchmarks:
            continue
        page.heading(3, target.title)
        page.text(target.note)
        add_target(page, study, target)


def made_of(output: Path, settings: dict, results: dict[Path, dict], problems: list[str]) -> dict[str, str]:
    """Returns a row on the results in a folder: what of, when, from which commits."""
    trained = [content for path, content in results.items() if path.name != RESULT]
    commits = {str(read(file, problems).get("commit"))[:12] for file in output.rglob(MANIFEST)}
    days = sorted(date.fromtimestamp(file.stat().st_mtime).isoformat() for file in results)
    updates = sorted({training["updates"] for training in trained if training})
    data = settings.get("data") or settings.get("smiles") or ("CPython's documentation" if trained else "-")
    return {
        "results": str(output),
        "size": settings.get("size", "-"),
        "pre-trainings": f"{len(trained)}",
        "updates": " to ".join(dict.fromkeys(f"{number:,}" for number in updates[:1] + updates[-1:])) or "-",
        "seeds": ", ".join(map(str, settings.get("seeds", ()))) or "-",
        "data": data,
        "fine-tunings": f"{len(results) - len(trained)}",
        "commit": ", ".join(sorted(commits)) or "-",
        "date": " to ".join(dict.fromkeys(days[:1] + days[-1:])) or "-",
    }


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("output", type=Path, help="a folder of the workflow")
    output = parser.parse_args(argv).output
    print(report(output).write(output))
