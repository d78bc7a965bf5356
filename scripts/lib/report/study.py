"""The study of [MASK]: each figure, table and comparison as a section of the report.

What a target shows stands in scripts/workflow/targets.csv, where a number is found and how it is written in
numbers.csv, and the paper's numbers in configs/paper/study.csv. What a result is of stands in its file.

study/NAME/lr-RATE/seed-N/{manifest,train,MEASURE}.json, train.log, glue/TASK/table6/seed-N/result.json
study/NAME/best.json    the best learning rate of a run, and the seed that chose it
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from lib.files import CONFIGS
from lib.report import figures
from lib.report.page import Page
from lib.report.tables import Value, over_seeds, text
from lib.run.logs import read_log
from lib.workflow.plan import EXAMPLE, SEEDS, STUDY
from lib.workflow.runs import GLUE_TASKS, WORKFLOW, Run, Target, targets

NUMBERS = {row.number: row for row in pd.read_csv(WORKFLOW / "numbers.csv").itertuples(index=False)}
PAPER = pd.read_csv(CONFIGS / "paper" / "study.csv", index_col="run")
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)
COLUMNS = ("folder", "name", "rate", "seed", "tuning_seed")
COLUMNS += ("measure", "metric", "mask_prob", "updates", "value")
CURVES = ("loss", "accuracy", "ppl")  # of a training's log
HALVES = {"valid": "MNLI-m", "valid1": "MNLI-mm"}


def read(path: Path, problems: list[str]) -> dict:
    """The content of a JSON file; empty if it does not exist, or is damaged, which is a problem."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
    except DAMAGED as error:
        problems.append(f"{path} is damaged: {error}")
        return {}


def numbers(content, prefix: str = "") -> Iterator[tuple[str, float]]:
    """(name, number) of all that a result holds; nested names are joined by dots, a mean has none."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from numbers(value, prefix if name == "mean" else f"{prefix}.{name}".removeprefix("."))
    elif isinstance(content, (int, float)) and not isinstance(content, bool):
        yield prefix, content


def measurements(content: dict) -> Iterator[dict]:
    """A row for each number of a result of fs_plugins.measures, or a training."""
    for checkpoint in content.get("rows", [content]):
        found = checkpoint.get("results", checkpoint)
        for one in found if isinstance(found, list) else [found]:
            at = {"updates": checkpoint.get("updates"), "mask_prob": one.get("mask_prob")}
            yield from ({**at, "metric": name, "value": value} for name, value in numbers(one))


def accuracies(paths: list[Path], problems: list[str]) -> Iterator[dict]:
    """A row for each accuracy of fine-tunings on GLUE: of a task, the mean of its development sets; of
    each half of MNLI; and the average of the study's tasks with a seed that has all."""
    seeds: dict[int, dict[str, float]] = {}
    for result in filter(None, (read(path, problems) for path in paths)):
        splits = {split: found["accuracy"] for split, found in result["metrics"].items() if split in HALVES}
        scores = seeds.setdefault(result["seed"], {})
        scores[result["task"]] = sum(splits.values()) / len(splits)
        if result["task"] == "MNLI":
            scores |= {HALVES[split]: score for split, score in splits.items()}
    for seed, scores in seeds.items():
        if scores.keys() >= set(GLUE_TASKS):
            scores["Avg"] = sum(scores[task] for task in GLUE_TASKS) / len(GLUE_TASKS)
        yield from ({"tuning_seed": seed, "metric": name, "value": value} for name, value in scores.items())


def pretrainings(output: Path, problems: list[str]) -> pd.DataFrame:
    """A row for each number of each finished pre-training in OUTPUT/study, with COLUMNS; the
    measure is the name of its file, ``glue`` of fine-tunings, ``log`` of the records of the training."""
    rows = []
    for train in sorted((output / "study").glob("*/*/*/train.json")):
        folder, run = train.parent, read(train, problems).get("run")
        if not run:
            continue
        about = {"folder": folder, **{name: run[name] for name in ("name", "rate", "seed")}}
        for path in sorted(set(folder.glob("*.json")) - {folder / "manifest.json"}):
            rows += [{**about, "measure": path.stem, **one} for one in measurements(read(path, problems))]
        tuned = accuracies(sorted(folder.glob("glue/*/*/*/result.json")), problems)
        rows += [{**about, "measure": "glue", **one} for one in tuned]
        for record in (one for one in read_log(folder / "train.log") if one["kind"] == "train"):
            at = {**about, "measure": "log", "updates": record["update"]}
            curve = ((name, value) for name, value in numbers(record) if name in CURVES)
            rows += [{**at, "metric": name, "value": value} for name, value in curve]
    return pd.DataFrame(rows, columns=COLUMNS)


class Study:
    """The results of the pre-trainings in OUTPUT/study.

    If learning rates were tried for a run, those pre-trainings count which use the best of them.

    Attributes:
        settings: of settings.json; empty if it does not exist.
        frame: of :func:`pretrainings`, those that count.
        rates: run -> NAME/best.json.
        has_glue: whether it fine-tunes; otherwise its quality is the probe's.
    """

    def __init__(self, output: Path, problems: list[str]):
        self.output = output
        self.settings = read(output / "settings.json", problems)
        table = self.settings.get("runs_table")
        self.targets: dict[str, Target] = targets(table and Path(table))
        known = {run.name for target in self.targets.values() for run in target.runs}
        best = {name: read(output / STUDY / name / "best.json", problems) for name in known}
        self.rates = {name: found for name, found in best.items() if found}
        every = pretrainings(output, problems)
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
            columns[number.title, who] = cells
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
    table = pd.DataFrame(zip(*columns.values(), strict=True))
    page.table(table.set_axis(pd.Index(columns, tupleize_cols=False), axis="columns"))


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
        figure = figures.lines(curves, NUMBERS[key].title, "updates", title=f"p = {figures.percent(p)}")
        page.picture(f"{place}-p{p:g}", figure)
