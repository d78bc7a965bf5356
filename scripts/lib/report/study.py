"""The study of [MASK]: each figure and table as a section of the report.

What a target shows stands in scripts/workflow/targets.csv; in numbers.csv beside it, in which column of the
results a number is found, its digits and factor, and the p at which it was measured (``own``: that of the
training). The paper's numbers are in configs/paper/study.csv.
"""

import pandas as pd
from lib.files import CONFIGS
from lib.report import figures
from lib.report.page import Page, markdown
from lib.report.results import SCORES, cell, column
from lib.workflow.plan import EXAMPLE, SEEDS
from lib.workflow.runs import GLUE_TASKS, STUDY, WORKFLOW, Run, Target

NUMBERS = pd.read_csv(WORKFLOW / "numbers.csv", dtype={"p": str}).fillna({"factor": 1, "p": "", "of": ""})
NUMBERS = {one.name: one for one in NUMBERS.itertuples()}
MEANS = {"MNLI": ("MNLI-m", "MNLI-mm"), "Avg": GLUE_TASKS}  # of numbers with the same seeds, if all are there
PAPER = pd.read_csv(CONFIGS / "paper" / "study.csv", index_col="run")


def numbers(study: pd.DataFrame, run: Run, key: str) -> pd.DataFrame:
    """Returns the results of the study that have a number of a run, with ``value``, by updates."""
    number, rows = NUMBERS[key], study[study["model"] == run.name]
    task, where, factor = SCORES.get(key, (None, number.of, number.factor))
    rows = rows[rows["task"] == task] if task else rows
    if number.p:
        rows = rows[rows["p"] == (run.own_p if number.p == "own" else float(number.p))]
    rows = rows.assign(value=factor * column(rows, where)).dropna(subset="value")
    return rows.sort_values("updates", kind="stable")


def last(study: pd.DataFrame, run: Run, key: str) -> pd.Series:
    """Returns a number of a run, of its last checkpoint, by seeds of pre-training and of fine-tuning."""
    if key in MEANS:
        parts = [last(study, run, part) for part in MEANS[key]]
        return pd.concat(parts, axis="columns").mean(axis="columns", skipna=False)
    rows = numbers(study, run, key).set_index(["seed", "tuning_seed"])["value"]
    return rows[~rows.index.duplicated(keep="last")]


def add_target(page: Page, target: Target, study: pd.DataFrame, settings: dict) -> None:
    """Adds the table of a figure or table of the paper, and its pictures."""
    page.heading(3, target.title)
    page.text(target.note)
    if "example" in target.measures:
        return add_example(page, target, study)
    runs, shown = target.runs, target.numbers
    if target.without_glue and not settings.get("glue") and study["task"].isna().all():
        shown = target.without_glue
        page.text("Without GLUE, ours is the probe: other quantities than the paper's accuracies.")
    table = pd.DataFrame([{"model": run.label, "k": f"{run.k}", "p": figures.percent(run.p)} for run in runs])
    if target.picture == "grid":
        table["p^k"] = [f"{100 * run.p**run.k:.2f}%" for run in runs]
    papers = PAPER.reindex([run.name for run in runs]).dropna(axis="columns", how="all")
    for key in dict.fromkeys([*target.numbers, *shown]):
        number, found = NUMBERS[key], {}
        if key in papers and key in target.numbers:
            found["paper"] = papers[[key]].to_numpy()
        if key in shown:
            found["ours"] = [last(study, run, key) for run in runs]
        expected = len(settings.get("seeds", ()))
        if key in MEANS or key in SCORES:
            expected *= len(settings.get("finetune_seeds") or SEEDS[STUDY])
        for who, values in found.items():
            asked = expected if who == "ours" else 0
            table[number.title, who] = [cell(value, number.digits, asked) or "-" for value in values]
            if target.picture == "grid":
                means = (pd.Series(value, dtype=float).mean() for value in values)
                grid = pd.Series(dict(zip([(run.k, run.p) for run in runs], means, strict=True)))
                picture = figures.heatmap(grid, f"{number.title}: {who}", number.digits)
                page.picture(f"{target.name}-{key}-{who}", picture)
        if target.picture in ("lines", "curves"):
            add_lines(page, target, study, key)
    page.table(table)


def add_lines(page: Page, target: Target, study: pd.DataFrame, key: str) -> None:
    """Adds a picture of a number by p, or one over updates for each p."""
    title, runs = NUMBERS[key].title, target.runs
    if target.picture == "lines":
        points = [(run.label, 100 * run.p, value) for run in runs for value in last(study, run, key)]
        figure = figures.lines(pd.DataFrame(points, columns=["label", "x", "y"]), title, "p, %")
        return page.picture(f"{target.name}-{key}", figure)
    for p in dict.fromkeys(run.p for run in runs):
        curves = [numbers(study, run, key).assign(label=run.label) for run in runs if run.p == p]
        points = pd.concat(curves).rename(columns={"updates": "x", "value": "y"})
        figure = figures.lines(points, title, "updates", title=f"p = {figures.percent(p)}")
        page.picture(f"{target.name}-{key}-p{p:g}", figure)


def add_example(page: Page, target: Target, study: pd.DataFrame) -> None:
    """Adds the picture and the page of scripts/explore.py, of the first model that has them."""
    folders = study["path"][study["model"] == target.runs[0].name].map(lambda path: path.parent)
    for example in [folder / EXAMPLE for folder in folders if (folder / EXAMPLE).exists()][:1]:
        if target.picture:
            picture = example.with_name(target.picture).relative_to(page.folder)
            page.parts.append(f"![{markdown(target.title)}]({picture})")
        page.text(f"To explore: {example}")
