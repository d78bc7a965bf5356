"""Tables 1 and 3: fine-tuned models beside the paper's; regressions by RMSE.

Everything comes from a frame of lib.report.frame.finetunings, a row a result. Of several points of a grid
the one counts that is best on the development set with the seed that most points have.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from lib import figures, paper
from lib.command_line import UserError
from lib.glue.grids import points_of
from lib.glue.tasks import TASKS
from lib.moleculenet.datasets import KNOWN
from lib.report.page import Block, Section
from lib.tables import Value, number, over_seeds, table

PICTURED = {
    "table1": ("SMILES-BERT*", "ExLM"),
    "table3": ("RoBERTa*", "ExLM"),
}  # that ours are comparable with
MEAN, SQUAD, QUESTIONS = "MEAN", "squad2", 11_873  # of SQuAD 2.0's development set
DEV, START = "metrics.valid.", "manifest.inputs.init_from"  # names in a result
SQUAD_METRICS = ("exact", "f1", "HasAns_f1", "NoAns_f1", "best_exact", "best_f1")
KINDS = {
    "classification": ("metrics.test.auc", 100, 1),
    "regression": ("metrics.test.rmse", 1, 3),
}  # metric, scale, digits


@dataclass(frozen=True)
class Column:
    """Of a table: a task (or set) and the metric of its results; ``rows`` is the split's of the whole set."""

    title: str
    task: str
    metric: str
    scale: float = 1
    digits: int = 1
    rows: int = 0
    split: str = ""


def _table3_columns() -> dict[str, Column]:
    """By the paper's name, in its order."""
    found = {}
    for name in paper.numbers("table3")["columns"]:
        split, task = ("valid1" if name == "MNLI-mm" else "valid"), name.partition("-m")[0]
        if task in TASKS:
            one = TASKS[task]
            metric = f"metrics.{split}.{one.metric}"
            found[name] = Column(name, task, metric, 100, 1, one.official[split], split)
        elif name != MEAN:
            found[name] = Column(name, SQUAD, DEV + {"EM": "exact", "F1": "f1"}[name], rows=QUESTIONS)
    return found


class Models:
    """The results of models in one table.

    Attributes:
        frame: those that count, a row each; ``every``: those of other points of a grid too.
        expected: model -> seeds that were asked for.
        grids: model -> the grid that was asked for, and ``only``; none if that is not known.
    """

    def __init__(self, every: pd.DataFrame, expected: dict[str, int], grids: dict[str, Sequence]):
        same = every[every.duplicated(["model", "task", "point", "seed"], keep=False)]
        if len(same):
            one, other = same.sort_values(["model", "task", "point", "seed"]).iloc[:2].to_dict("records")
            which = f"{one['task']} with {one['point']}" if one["point"] else one["task"]
            raise UserError(
                f"{one['model']}: seed {one['seed']} of {which} is in {one['path'].parent} and in "
                f"{other['path'].parent}: give the folder of a single model"
            )
        self.every, self.expected, self.grids = every, expected, grids
        chosen = [self._best(part) for _, part in every.groupby(["model", "task"])]
        self.frame = pd.concat(chosen) if chosen else every.iloc[:0]
        self.names = list(dict.fromkeys(every["model"]))

    @staticmethod
    def _best(part: pd.DataFrame) -> pd.DataFrame:
        """The results of a task's best point, by seed."""
        if part["point"].nunique() > 1:
            chooser = part.groupby("seed")["point"].nunique().sort_index().idxmax()
            first = part[part["seed"] == chooser]
            score = first[f"metrics.valid.{TASKS[part['task'].iloc[0]].metric}"]
            seeds = first["point"].map(part["point"].value_counts())  # of equals what was chosen has more
            part = part[part["point"] == first.loc[(score + 1e-9 * seeds).idxmax(), "point"]]
        return part.sort_values("seed", key=lambda seeds: seeds.astype(str).str.zfill(9))

    def of(self, model: str, task: str) -> pd.DataFrame:
        """The results of a model that count, by seed."""
        return self.frame[(self.frame["model"] == model) & (self.frame["task"] == task)]

    def value(self, model: str, column: Column, median: bool = False) -> Value | None:
        found = self.of(model, column.task)
        found = found[column.metric] if column.metric in found else pd.Series(dtype=float)
        return over_seeds(found.astype(float) * column.scale, self.expected.get(model, 0), median)

    def points(self, model: str, task: str) -> int:
        """Of a task's grid; if that is not known, those that have a result."""
        grid = self.grids.get(model) if task in TASKS else None
        return len(points_of(TASKS[task], *grid[:2])) if grid else self.finished(model, task)

    def finished(self, model: str, task: str) -> int:
        """Points of a task's grid that have a result."""
        return self.every[(self.every["model"] == model) & (self.every["task"] == task)]["point"].nunique()


def beside_paper(
    name: str,
    models: Models,
    columns: dict[str, Column],
    averaged: Sequence[str],
    value: Callable[[str, Column], Value | None],
    text: Callable[[str, Column, Value], str],
    xlabel: str,
) -> list[Block]:
    """A table of the paper's with a row for each model, and a picture; MEAN is over ``averaged``."""
    theirs = paper.columns(name)
    ours = {model: {key: value(model, column) for key, column in columns.items()} for model in models.names}
    order = paper.numbers(name)["columns"]
    order = [*columns, MEAN] if MEAN not in order else order
    titles = {key: columns[key].title if key in columns else MEAN for key in order}

    def mean(model: str) -> str:
        centres = [ours[model][key].centre for key in averaged if ours[model][key]]
        part = f" ({len(centres)} of {len(averaged)})" if len(centres) < len(averaged) else ""
        return f"{statistics.fmean(centres):.1f}{part}" if centres else "-"

    def cell(model: str, key: str) -> str:
        if key == MEAN:
            return mean(model)
        found = ours[model][key]
        return text(model, columns[key], found) if found else "not run"

    rows = [[row, *(number(values.get(key), missing="-") for key in order)] for row, values in theirs.items()]
    rows += [[f"{model} (ours)", *(cell(model, key) for key in order)] for model in models.names]
    shown = [key for key in order if key != MEAN and any(values[key] for values in ours.values())]
    pictures = {}
    if shown:
        papers = {
            f"{row} (the paper's)": {titles[k]: theirs[row].get(k) for k in shown} for row in PICTURED[name]
        }
        values = {f"{model} (ours)": {titles[k]: ours[model][k] for k in shown} for model in models.names}
        title = name.replace("table", "Table ")
        pictures = {name: figures.dots([titles[k] for k in shown], papers, values, xlabel, title)}
    return [pd.DataFrame(rows, columns=["model", *titles.values()]), pictures]


def table1(every: pd.DataFrame, expected: dict[str, int]) -> list[Section]:
    """Table 1 of the classifications, and a table of the regressions, if there are any.

    If nobody said which seeds a result should have, it should have those that any of its table has.
    """
    sections = []
    for kind, (metric, scale, digits) in KINDS.items():
        part = every[every["kind"] == kind]
        if part.empty:
            continue
        seeds = part["seed"].nunique()
        models = Models(part, {name: expected.get(name) or seeds for name in part["model"].unique()}, {})
        theirs = paper.numbers("table1")["columns"] if kind == "classification" else []
        names = [*theirs, *sorted(set(part["task"]) - set(theirs))]
        titles = {name: KNOWN[name].title if name in KNOWN else name for name in names}
        columns = {name: Column(titles[name], name, metric, scale, digits) for name in names}

        def text(model: str, column: Column, value: Value) -> str:
            return value.text(column.digits)

        if kind == "regression":
            about = "RMSE in the units of the labels, test set, mean ± standard deviation over seeds."
            cells = {"model": lambda model: f"{model} (ours)"}
            for column in columns.values():
                cells[column.task] = lambda model, models=models, column=column: (
                    value.text(column.digits) if (value := models.value(model, column)) else "not run"
                )
            blocks = [table(models.names, cells)]
        else:
            about = (
                f"The paper's: {paper.numbers('table1')['source']}. Ours: ROC-AUC in % on the test set, mean "
                "± standard deviation over seeds; (n=3) is their number."
            )
            xlabel = "ROC-AUC, %; ours: mean ± standard deviation"
            blocks = beside_paper("table1", models, columns, theirs, models.value, text, xlabel)
        title = "Table 1: MoleculeNet" if theirs else "Regressions of molecular properties"
        sections.append(Section(title, [about, *blocks, _remarks(part, metric, theirs)]))
    return sections


def _remarks(part: pd.DataFrame, metric: str, compared: Sequence[str]) -> list[str]:
    """What keeps the numbers of a column from being compared.

    Args:
        compared: the sets that the paper has, by scaffold splits (or by Uni-Mol's files, which are split so).
    """
    test = "metrics.test"
    known = ("split.kind", f"{test}.unreadable", f"{test}.rows_sha256", f"{test}.molecules", metric)
    part = part.reindex(columns=list(dict.fromkeys((*part, *known))))
    found = []
    for (model, data), runs in part.groupby(["model", "task"], sort=False):
        if (unread := runs[f"{test}.unreadable"].max()) > 0:
            found.append(
                f"{model}, {data}: {unread:.0f} molecules of the test set, which it cannot read, are "
                "predicted as the mean of the training labels"
            )
        undefined = runs["seed"][runs[metric].isna()]
        found += [
            f"{model}, {data}, seed {s}: no {metric.rpartition('.')[2].upper()} on the test set"
            for s in undefined
        ]
        if data in compared and (runs["split.kind"] == "random").any():
            found.append(f"{model}, {data}: a random split; the paper's are by scaffold")
    key = f"{test}.rows_sha256" if part[f"{test}.rows_sha256"].notna().all() else f"{test}.molecules"
    for data, runs in part.groupby("task", sort=False):
        first = runs.drop_duplicates(key)
        if len(first) > 1:
            one, other = (f"{row['model']} (seed {row['seed']})" for _, row in first.iloc[:2].iterrows())
            found.append(f"{data}: not all results are of the same test molecules: {one}, but {other}")
    return found


def table3(every: pd.DataFrame, expected: dict[str, int], grids: dict[str, Sequence]) -> Section:
    """Table 3 with a row per model, a picture, and the details of each model."""
    models, columns = Models(every, expected, grids), _table3_columns()
    averaged = [name for name, column in columns.items() if column.task in TASKS and name != "MNLI-mm"]

    def value(model: str, column: Column) -> Value | None:
        return models.value(model, column, median=True)

    def text(model: str, column: Column, value: Value) -> str:
        finished, points = models.finished(model, column.task), models.points(model, column.task)
        some = f" ({finished} of {points} points)" if finished < points else ""
        return value.text() + _marks(models.of(model, column.task), column) + some

    xlabel = "%; ours: median, and lowest to highest seed"
    blocks = beside_paper("table3", models, columns, averaged, value, text, xlabel)
    about = (
        f"The paper's: {paper.numbers('table3')['source']}. Ours: the median over seeds of the point of the "
        "grid that is best on the development set with the first seed, in percent; (n=2 of 5) means that "
        "three seeds are missing. MEAN is over the eight tasks, with MNLI-m."
    )
    notes = {
        "†": "† not the whole training or development set, so not comparable with the paper; see below.",
        "‡": "‡ started from a model fine-tuned on MNLI.",
    }
    cells = "".join(map(str, blocks[0].to_numpy().ravel()))
    details = [Section(f"Details of {name}", _details(models, name, columns)) for name in models.names]
    blocks = [about, blocks[0], *(note for mark, note in notes.items() if mark in cells), blocks[1]]
    return Section("Table 3: GLUE and SQuAD 2.0", blocks, details)


def _marks(runs: pd.DataFrame, column: Column) -> str:
    """What a number is not comparable in."""
    marks = "" if all(_sizes(row, column) == _official(column) for _, row in runs.iterrows()) else "†"
    return marks + ("‡" if _from_mnli(runs) else "")


def _sizes(row: pd.Series, column: Column) -> tuple[int, int]:
    """(rows of the split, rows of the training set) that a result is of; SQuAD's has no training rows."""
    if column.task == SQUAD:
        return int(row[f"{DEV}total"]), 0
    return int(row[f"rows.{column.split}"]), int(row["rows.train"])


def _official(column: Column) -> tuple[int, int]:
    return column.rows, 0 if column.task == SQUAD else TASKS[column.task].official["train"]


def _from_mnli(runs: pd.DataFrame) -> bool:
    return START in runs and runs[START].notna().any()


def _details(models: Models, name: str, columns: dict[str, Column]) -> list[Block]:
    """Each task's best point, the score of each seed, and how much of the data it is of."""
    squad = [Column(f"SQuAD, {metric}", SQUAD, DEV + metric, rows=QUESTIONS) for metric in SQUAD_METRICS[2:]]
    rows = [column for column in [*columns.values(), *squad] if models.value(name, column)]
    of = {column: models.of(name, column.task) for column in rows}

    def part(column: Column, i: int) -> str:
        ours, whole = _sizes(of[column].iloc[0], column)[i], _official(column)[i]
        cut, limit = of[column].iloc[0].get(f"cut.{column.split}") if column.split and i == 0 else (0, 0)
        return f"{ours:,} of {whole:,}" + (f", {cut:,} cut to {limit} tokens" if cut else "") if whole else ""

    cells = {
        "task": lambda column: column.title,
        "metric": lambda column: column.metric.rpartition(".")[2],
        "median": lambda column: number(models.value(name, column, median=True).centre, 2),
        "scores": lambda column: ", ".join(number(v, 2) for v in models.value(name, column).numbers),
        "seeds": lambda column: ", ".join(map(str, of[column]["seed"])),
        "best point": lambda column: of[column]["point"].iloc[0],
        "points finished": lambda column: (
            f"{models.finished(name, column.task)} of {models.points(name, column.task)}"
        ),
        "training rows": lambda column: part(column, 1),
        "development rows": lambda column: part(column, 0),
        "start": lambda column: "MNLI's" if _from_mnli(of[column]) else "pre-trained",
    }
    note = (
        ["best_exact and best_f1: at the thresholds that are best on this very set"]
        if SQUAD in set(models.of(name, SQUAD)["task"])
        else []
    )
    return [table(rows, cells), *note] if rows else ["No result yet."]
