"""The study of [MASK]: each figure, table and comparison as a section of the report.

What a target shows stands in scripts/workflow/targets.toml; in numbers.csv beside it, where a number is
found, MEASURE.METRIC (``glue``: of fine-tunings; ``log``: of the training's log), its digits and factor, and
the p at which it was measured (``own``: that of the training). The paper's numbers are in
configs/paper/study.csv. The files are those of lib/workflow/plan.py; what a result is of stands in its file.
"""

import json
from pathlib import Path

import pandas as pd
from lib.files import CONFIGS
from lib.glue import TASKS
from lib.report import figures
from lib.report.page import Page
from lib.report.tables import Value, over_seeds, text
from lib.workflow.plan import EXAMPLE, SEEDS, STUDY
from lib.workflow.runs import GLUE_TASKS, WORKFLOW, Run, Target, targets

NUMBERS = pd.read_csv(WORKFLOW / "numbers.csv", index_col="name", dtype={"p": str})
NUMBERS = {one.Index: one for one in NUMBERS.fillna({"factor": 1, "p": ""}).itertuples()}
PAPER = pd.read_csv(CONFIGS / "paper" / "study.csv", index_col="run")
DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)
COLUMNS = ("folder", "name", "rate", "seed", "tuning_seed")
COLUMNS += ("measure", "metric", "p", "updates", "value")


def read(path: Path, problems: list[str]) -> dict:
    """Returns the content of a JSON file; empty if it does not exist, or is damaged, which is a problem."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
    except DAMAGED as error:
        problems.append(f"{path} is damaged: {error}")
        return {}


def numbers(results: pd.DataFrame) -> pd.DataFrame:
    """Returns a row for each number of each result, with ``metric`` and ``value``; a mean has the name of its
    quantity."""
    results = results.infer_objects().select_dtypes("number")
    long = results.melt(results.columns.intersection(["updates", "p", "tuning_seed"]), var_name="metric")
    return long.assign(metric=long["metric"].astype(str).str.removesuffix(".mean")).dropna(subset="value")


def measurements(content: dict) -> pd.DataFrame:
    """Returns the numbers of a file of fs_plugins.measures; nested names are joined by dots."""
    results = pd.json_normalize(content.get("rows", []), "results", "updates")
    return numbers(results.rename(columns={"mask_prob": "p"}))


def accuracies(paths: list[Path], problems: list[str]) -> pd.DataFrame:
    """Returns the accuracies of fine-tunings on GLUE: of a task, the mean of its development sets; of each
    half of MNLI; and the average of the study's tasks with a seed that has all."""
    seeds: dict[int, dict[str, float]] = {}
    for result in filter(None, (read(path, problems) for path in paths)):
        task, scores = TASKS[result["task"]], seeds.setdefault(result["seed"], {})
        scored = {split: metrics["accuracy"] for split, metrics in result["metrics"].items()}
        found = {task.title(split): scored[split] for split in task.valid_splits if split in scored}
        scores |= {**found, task.name: sum(found.values()) / len(found)}
    scores = pd.DataFrame.from_dict(seeds, "index").rename_axis("tuning_seed").reset_index()
    tasks = scores.reindex(columns=GLUE_TASKS)
    return numbers(scores.assign(Avg=tasks.astype(float).mean(axis="columns", skipna=False)))


def pretrainings(output: Path, problems: list[str]) -> pd.DataFrame:
    """Returns a row for each number of each finished pre-training in OUTPUT/study, with COLUMNS; the
    measure is the name of its file, ``glue`` of fine-tunings, ``log`` of the training's log."""
    every = [pd.DataFrame(columns=COLUMNS)]
    for train in sorted((output / "study").glob("*/*/*/train.json")):
        folder, content = train.parent, read(train, problems)
        if not (run := content.get("run")):
            continue
        about = {"folder": folder, **{name: run[name] for name in ("name", "rate", "seed")}}
        curve = pd.DataFrame(content.pop("curve", [])).rename(columns={"update": "updates"})
        parts = {path.stem: measurements(read(path, problems)) for path in sorted(folder.glob("*.json"))}
        # its updates are a number of the training, not the moment of one
        parts["train"] = numbers(pd.json_normalize(content).rename(columns={"updates": "updates.mean"}))
        parts["glue"] = accuracies(sorted(folder.glob("glue/*/*/*/result.json")), problems)
        parts["log"] = numbers(curve)
        every += [part.assign(**about, measure=measure) for measure, part in parts.items() if len(part)]
    return pd.concat(every[len(every) > 1 :]).reindex(columns=COLUMNS)


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
        self.targets: dict[str, Target] = targets()
        known = {run.name for target in self.targets.values() for run in target.runs}
        best = {name: read(output / STUDY / name / "best.json", problems) for name in known}
        self.rates = {name: chosen for name, chosen in best.items() if chosen}
        every = pretrainings(output, problems)
        tuned = every["name"].map(set(every["name"][every["rate"] == "best"]).__contains__)
        self.frame = every[every["rate"] == tuned.map({True: "best", False: "default"})]
        self.has_glue = bool(self.settings.get("glue")) or (self.frame["measure"] == "glue").any()
        for name in sorted(set(every["name"]) - known):
            problems.append(f"{output / STUDY / name} is not used: {name} is not in runs.csv")

    def rows(self, run: Run, key: str) -> pd.DataFrame:
        """Returns the rows of the frame with a number of a run, in the order of updates."""
        number = NUMBERS[key]
        measure, _, metric = number.of.partition(".")
        rows = self.frame.query("name == @run.name and measure == @measure and metric == @metric")
        if number.p:
            rows = rows[rows["p"] == (run.own_p if number.p == "own" else float(number.p))]
        return rows.assign(value=rows["value"] * number.factor).sort_values("updates", kind="stable")

    def last(self, run: Run, key: str) -> pd.DataFrame:
        """Returns those of the last checkpoint, a row for each seed."""
        return self.rows(run, key).drop_duplicates(["seed", "tuning_seed"], keep="last")

    def value(self, run: Run, key: str) -> Value | None:
        """Returns a number of a run over seeds, None without one."""
        chooser = self.rates.get(run.name, {}).get("seed")
        seeds = len(set(self.settings.get("seeds", ())) - {chooser})
        if NUMBERS[key].of.startswith("glue."):
            seeds *= len(self.settings.get("finetune_seeds") or SEEDS[STUDY])
        return over_seeds(self.last(run, key)["value"], seeds)

    def curve(self, run: Run, key: str) -> dict[float, Value]:
        """Returns a number of a run over seeds, by updates."""
        grouped = self.rows(run, key).groupby("updates")["value"]
        return {updates: Value(tuple(values)) for updates, values in grouped}


def add_target(page: Page, study: Study, target: Target) -> None:
    """Adds the table of a figure or table of the paper, and its pictures."""
    if "example" in target.measures:
        return add_example(page, study, target)
    runs, shown = target.runs, target.numbers
    if target.without_glue and not study.has_glue:
        shown = target.without_glue
        page.text("Without GLUE, ours is the probe: other quantities than the paper's accuracies.")
    papers = PAPER.reindex([run.name for run in runs]).dropna(axis="columns", how="all")
    rows = [{"model": run.label, "k": f"{run.k}", "p": figures.percent(run.p)} for run in runs]
    table = pd.DataFrame(rows)
    if target.picture == "grid":
        table["p^k"] = [f"{100 * run.p**run.k:.2f}%" for run in runs]
    for key in dict.fromkeys([*target.numbers, *shown]):
        number, values = NUMBERS[key], {}
        if key in papers and key in target.numbers:
            values["paper"] = {run: over_seeds([papers.at[run.name, key]]) for run in runs}
        if key in shown:
            values["ours"] = {run: study.value(run, key) for run in runs}
        for who, by_run in values.items():
            cells = [text(value, number.digits, count=True) or "-" for value in by_run.values()]
            table[number.title, who] = cells
        if target.picture == "curves":
            add_curves(page, study, target, key)
        elif target.picture == "lines":
            lines: dict[str, dict] = {run.label: {} for run in runs}
            for run, value in values["ours"].items():
                lines[run.label] |= {100 * run.p: value} if value else {}
            page.picture(f"{target.name}-{key}", figures.lines(lines, number.title, "p, %"))
        for who, by_run in values.items() if target.picture == "grid" else ():
            cells = {(run.k, run.p): value and value.centre for run, value in by_run.items()}
            picture = figures.heatmap(cells, f"{number.title}: {who}", number.digits)
            page.picture(f"{target.name}-{key}-{who}", picture)
    page.table(table)


def add_example(page: Page, study: Study, target: Target) -> None:
    """Adds the picture and the page of scripts/explore.py, of the first model that has them."""
    [run] = target.runs
    for path in sorted((study.output / STUDY / run.name).glob(f"*/*/{EXAMPLE}"))[:1]:
        if target.picture:
            page.picture(target.name, path.with_name(target.picture))
        page.text(f"To explore: {path}")


def add_curves(page: Page, study: Study, target: Target, key: str) -> None:
    """Adds a number over updates, a picture for each p."""
    for p in dict.fromkeys(run.p for run in target.runs):
        curves = {run.label: study.curve(run, key) for run in target.runs if run.p == p}
        figure = figures.lines(curves, NUMBERS[key].title, "updates", title=f"p = {figures.percent(p)}")
        page.picture(f"{target.name}-{key}-p{p:g}", figure)
