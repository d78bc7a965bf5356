"""Writes a report of results beside the paper's numbers: report.md, and its pictures.

    python scripts/report.py runs/smoke

OUTPUT is a folder of the workflow. The report has whatever it holds of the study (figures 3, 4, 5, 8, 9 and
12, tables 2, 4, 12 and 13, the case study), tables 1, 3 and 9, also while the workflow runs.
"""

from contextlib import suppress
from datetime import date
from pathlib import Path

import matplotlib.figure  # noqa: F401  (before fairseq, whose logging would have it tell of its fonts)
import pandas as pd
from lib.command_line import argument_parser, script
from lib.files import MANIFEST, read_json
from lib.moleculenet import KNOWN
from lib.report import study
from lib.report.finetunings import add_molecules, add_sets, add_table
from lib.report.page import Page
from lib.report.results import frame
from lib.workflow.runs import MOLECULES, SETS, STUDY, TEXT, runs, targets

ABOUT = (
    "Ours are means over seeds ± the sample standard deviation; (n=3) is the number of seeds, (n=2 of 3) "
    "says that one is missing. Without a bracket there is one seed; - says that there is no result. Terms "
    "are explained in docs/glossary.md."
)
SMOKE = "Size smoke shows that everything runs. Its numbers mean nothing: don't compare them with others."


def report(output: Path) -> Page:
    """Returns the report of a folder of the workflow."""
    page, problems = Page(f"Results of {output}", output), []
    settings, results = read_json(output / "settings.json") or {}, frame(output, problems)
    of_study = results[results["table"] == STUDY]
    for name in sorted({*of_study["model"]} - {*runs()}):
        problems.append(f"{output / STUDY / name} is not used: {name} is not in runs.csv")
    page.items(["Damaged or unused results:", *problems] if problems else [])
    page.text(SMOKE if settings.get("size") == "smoke" and (output / STUDY).is_dir() else "")
    page.text(ABOUT)
    page.table(made_of(output, settings, results))
    asked, molecules = settings.get("targets", ()), results[results["table"] == MOLECULES]
    shown = [target for name, target in targets().items() if name in asked and target.of_study]
    tables = results[
        results["table"].isin([MOLECULES, TEXT]) & ~results["task"].isin({*molecules["task"]} - {*KNOWN})
    ]
    if shown or len(tables) or SETS in asked:
        page.title = "ExLM: the paper's results and ours"
    for name, found in tables.groupby("table"):
        add_table(page, name, found, settings)
    if len(molecules):
        add_molecules(page, molecules, settings)
    if SETS in asked:
        add_sets(page, settings["moleculenet"])
    if shown:
        page.heading(2, "The study of [MASK]")
    for target in shown:
        study.add_target(page, target, of_study, settings)
    return page


def made_of(output: Path, settings: dict, results: pd.DataFrame) -> pd.DataFrame:
    """Returns a row on the results in a folder: what of, when, from which commits."""
    trained = results["path"][results["path"].map(lambda path: path.name == "train.json")].nunique()
    commits = {commit_of(file) for file in output.rglob(MANIFEST)} - {""}
    days = sorted({date.fromtimestamp(path.stat().st_mtime).isoformat() for path in results["path"]})
    data = settings.get("data") or settings.get("smiles")
    row = {
        "size": settings.get("size", "") if trained else "",
        "data": data or ("CPython's documentation" if trained else ""),
        "pre-trainings": f"{trained}",
        "seeds": ", ".join(map(str, settings.get("seeds", ()))),
        "fine-tunings": f"{results['task'].notna().sum()}",
        "commit": ", ".join(sorted(commits)),
        "date": " to ".join(dict.fromkeys(days[:1] + days[-1:])),
    }
    return pd.DataFrame([row]).replace("", "-")


def commit_of(manifest: Path) -> str:
    """Returns the commit that a manifest names, 12 digits of it, with "+changes" if there were; "" if it has
    none, as of a forest, or is damaged."""
    with suppress(ValueError, AttributeError):
        digits, plus, changes = read_json(manifest).get("commit", "").partition("+")
        return digits[:12] + plus + changes
    return ""


@script
def main(argv: list[str] | None = None) -> None:
    parser = argument_parser(__doc__)
    parser.add_argument("output", type=Path, help="a folder of the workflow")
    output = parser.parse_args(argv).output
    print(report(output).write())
