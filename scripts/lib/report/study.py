"""The study of [MASK]: each figure, table and comparison as a section of the report.

What a target shows stands in scripts/workflow/targets.csv, where a number is found and how it is written in
numbers.csv, and the paper's numbers in configs/paper/study.csv.

study/NAME/lr-RATE/seed-N/{manifest,train,MEASURE}.json, train.log, glue/TASK/table6/seed-N/result.json
study/NAME/best.json    the best learning rate of a run, and the seed that chose it
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from lib import figures
from lib.files import CONFIGS
from lib.report import frame
from lib.report.page import Page
from lib.study.results import EXAMPLE, SEEDS, STUDY
from lib.study.runs import WORKFLOW, Run, Target, targets
from lib.tables import Value, over_seeds, text

NUMBERS = {row.number: row for row in pd.read_csv(WORKFLOW / "numbers.csv").itertuples(index=False)}
PAPER = pd.read_csv(CONFIGS / "paper" / "study.csv", index_col="run")


class Study:
    """The results of the pre-trainings in OUTPUT/study.

    If learning rates were tried for a run, those pre-trainings count which use the best of them.

    Attributes:
        settings: of settings.json; empty if it does not exist.
        frame: of lib.report.frame.study, those that count.
        rates: run -> NAME/best.json.
        has_glue: whether it fine-tunes; otherwise its quality is the probe's.
    """

    def __init__(self, output: Path, problems: list[str]):
        self.output = output
        self.settings = frame.read(output / "settings.json", problems)
        table = self.settings.get("runs_table")
        self.targets: dict[str, Target] = targets(table and Path(table))
        known = {run.name for target in self.targets.values() for run in target.runs}
        best = {name: frame.read(output / STUDY / name / "best.json", problems) for name in known}
        self.rates = {name: found for name, found in best.items() if found}
        every = frame.study(output, problems)
        tuned = every["name"].map(set(every["name"][every["rate"] == "best"]).__contains__)
        self.frame = every[every["rate"] == tuned.map({True: "best", False: "default"})]
        self.has_glue = bool(self.settings.get("glue")) or (self.frame["measure"] == "glue").any()
        for name in sorted(set(every["name"]) - known):
            problems.append(f"{output / STUDY / name} is not used: {name} is in no table of runs")

    def rows(self, run: Run, key: str) -> pd.DataFrame:
        """The rows of the frame with a number of a run, in the order of updates."""
        one = NUMBERS[key]
        rows = self.frame[(self.frame["name"] == run.name) & (self.frame["measure"] == one.measure)]
        rows = rows[rows["metric"] == one.metric]
        if not pd.isna(one.mask_prob):
            p = run.own_mask_prob if one.mask_prob == "own" else float(one.mask_prob)
            rows = rows[rows["mask_prob"] == p]
        return rows.assign(value=rows["value"] * one.scale).sort_values("updates", kind="stable")

    def last(self, run: Run, key: str) -> pd.DataFrame:
        """Those of the last checkpoint, a row for each seed."""
        return self.rows(run, key).drop_duplicates(["seed", "tuning_seed"], keep="last")

    def value(self, run: Run, key: str) -> Value | None:
        """Over seeds."""
        chooser = self.rates.get(run.name, {}).get("seed")
        seeds = len(set(self.settings.get("seeds", ())) - {chooser})
        if NUMBERS[key].measure == "glue":
            seeds *= len(self.settings.get("finetune_seeds") or SEEDS[STUDY])
        return over_seeds(self.last(run, key)["value"], seeds)

    def curve(self, run: Run, key: str) -> dict[float, Value]:
        """Over seeds, by updates."""
        return {n: Value(tuple(one)) for n, one in self.rows(run, key).groupby("updates")["value"]}


def add_target(page: Page, study: Study, target: Target, place: str) -> None:
    """The table and the pictures of a figure or table of the paper.

    Args:
        place: how the pictures' names begin.
    """
    if "example" in target.measures:
        return add_example(page, study, target, place)
    runs, shown = target.runs, target.numbers
    if target.without_glue and not study.has_glue:
        shown = target.without_glue
    papers = PAPER.reindex([run.name for run in runs]).dropna(axis="columns", how="all")
    columns = {"model": [run.label for run in runs], "k": [f"{run.k}" for run in runs]}
    columns["p"] = [figures.percent(run.p) for run in runs]
    if target.picture == "grid":
        columns["p^k"] = [f"{100 * run.p**run.k:.2f}%" for run in runs]
    for key in dict.fromkeys([*target.numbers, *shown]):
        number, values = NUMBERS[key], {}
        if key in papers and key in target.numbers:
            values["paper"] = {run: over_seeds([papers.at[run.name, key]]) for run in runs}
        if key in shown:
            values["ours"] = {run: study.value(run, key) for run in runs}
        for who, found in values.items():
            cells = [text(one, number.digits, count=True) or "-" for one in found.values()]
            columns[f"{number.title}: {who}"] = cells
        if target.picture == "curves":
            add_curves(page, study, target, key, f"{place}-{key}")
        elif target.picture == "lines":
            lines: dict[str, dict] = {run.label: {} for run in runs}
            for run, one in values["ours"].items():
                lines[run.label] |= {100 * run.p: one} if one else {}
            page.picture(f"{place}-{key}", figures.lines(lines, number.title, "p, %"))
        for who, found in values.items() if target.picture == "grid" else ():
            cells = {(run.k, run.p): one and one.centre for run, one in found.items()}
            picture = figures.heatmap(cells, f"{number.title}: {who}", number.digits)
            page.picture(f"{place}-{key}-{who}", picture)
    page.table(pd.DataFrame(columns))


def add_example(page: Page, study: Study, target: Target, place: str) -> None:
    """The picture and the page of scripts/explore.py, of the first model that has them."""
    [run] = target.runs
    for path in sorted((study.output / STUDY / run.name).glob(f"*/*/{EXAMPLE}"))[:1]:
        if target.picture:
            page.picture(place, path.with_name(target.picture))
        page.text(f"To explore: {path}")


def add_curves(page: Page, study: Study, target: Target, key: str, place: str) -> None:
    """A number over updates, a picture for each p."""
    for p in dict.fromkeys(run.p for run in target.runs):
        curves = {run.label: study.curve(run, key) for run in target.runs if run.p == p}
        title = f"{NUMBERS[key].title} (p = {figures.percent(p)})"
        page.picture(f"{place}-p{p:g}", figures.lines(curves, title, "updates"))
