"""Tables 1, 3 and 9: fine-tuned models beside the paper's, and the sets of MoleculeNet; regressions by RMSE.

Everything comes from a frame of lib.report.frame.finetunings, a row a result. Of several points of a grid
the one counts that is best on the development set with the seed that most points have.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from lib import figures, paper
from lib.command_line import UserError
from lib.glue.tasks import TASKS
from lib.moleculenet.datasets import KNOWN
from lib.report import frame
from lib.report.page import Block, Section
from lib.tables import number, over_seeds

# ours are comparable with these
PICTURED = {"table1": ("SMILES-BERT*", "ExLM"), "table3": ("RoBERTa*", "ExLM")}
MEAN, SQUAD, QUESTIONS = "MEAN", "squad2", 11_873  # of SQuAD 2.0's development set
DEV, TEST, START = "metrics.valid.", "metrics.test.", "manifest.inputs.init_from"  # names in a result
MARKS = {
    "†": "† not the whole training or development set, so not comparable with the paper; see below.",
    "‡": "‡ started from a model fine-tuned on MNLI.",
}


@dataclass(frozen=True)
class Column:
    """Of a table: a task (or set) and the metric of its results; and, of table 3, where its number of rows
    stands in a result, and that of the whole set."""

    title: str
    task: str
    metric: str
    scale: float = 1
    digits: int = 1
    rows: str = ""
    official: int = 0


def _table3_columns() -> dict[str, Column]:
    """By the paper's name, in its order."""
    found = {}
    for name in paper.numbers("table3")["columns"]:
        split, task = ("valid1" if name == "MNLI-mm" else "valid"), name.partition("-m")[0]
        if task in TASKS:
            one = TASKS[task]
            metric, rows = f"metrics.{split}.{one.metric}", f"rows.{split}"
            found[name] = Column(name, task, metric, 100, 1, rows, one.official[split])
        elif name != MEAN:
            metric = DEV + {"EM": "exact", "F1": "f1"}[name]
            found[name] = Column(name, SQUAD, metric, rows=f"{DEV}total", official=QUESTIONS)
    return found


def chosen(every: pd.DataFrame) -> pd.DataFrame:
    """The results that count.

    Raises:
        UserError: if two are of one model, task, point and seed.
    """
    keys = ["model", "task", "point", "seed"]
    same = every[every.duplicated(keys, keep=False)].sort_values(keys)
    if len(same):
        one, other = same.iloc[:2].to_dict("records")
        which = " with ".join(filter(None, (one["task"], one["point"])))
        raise UserError(
            f"{one['model']}: seed {one['seed']} of {which} is in {one['path'].parent} and in "
            f"{other['path'].parent}: give the folder of a single model"
        )
    return pd.concat([_best(part) for _, part in every.groupby(["model", "task"], sort=False)])


def _best(part: pd.DataFrame) -> pd.DataFrame:
    """The results of a task's best point, by seed."""
    if part["point"].nunique() > 1:
        chooser = part.groupby("seed")["point"].nunique().sort_index().idxmax()
        first = part[part["seed"] == chooser]
        score = first[DEV + first["metric"].iloc[0]]
        seeds = first["point"].map(part["point"].value_counts())  # of equals what was chosen has more
        part = part[part["point"] == first.loc[(score + 1e-9 * seeds).idxmax(), "point"]]
    return part.sort_values("seed")


def beside_paper(
    name: str,
    results: pd.DataFrame,
    columns: dict[str, Column],
    averaged: list[str],
    xlabel: str,
    remark: Callable[[pd.DataFrame, Column], str] = lambda part, column: "",
) -> list[Block]:
    """A table of the paper's with a row for each model, and a picture; MEAN is over ``averaged``.

    Args:
        results: of :func:`chosen`.
        remark: what is added to a cell.
    """
    theirs, order = paper.columns(name) if averaged else {}, [*columns]
    order.insert(order.index("EM") if "EM" in order else len(order), MEAN) if averaged else None
    rows = [[row, *(number(values.get(key), missing="-") for key in order)] for row, values in theirs.items()]
    ours = {}
    for model, part in results.groupby("model", sort=False):
        cells, values = {}, {}
        for key, column in columns.items():
            found = part[part["task"] == column.task]
            numbers = found.get(column.metric, pd.Series(dtype=float)).astype(float) * column.scale
            values[key] = over_seeds(numbers, part["expected"].iloc[0], name == "table3")
            cells[key] = values[key].text(column.digits) + remark(found, column) if values[key] else "not run"
        centres = [values[key].centre for key in averaged if values[key]]
        some = f" ({len(centres)} of {len(averaged)})" if len(centres) < len(averaged) else ""
        cells[MEAN] = f"{statistics.fmean(centres):.1f}{some}" if centres else "-"
        rows.append([f"{model} (ours)", *(cells[key] for key in order)])
        ours[f"{model} (ours)"] = {columns[key].title: value for key, value in values.items()}
    titles = {key: columns[key].title if key in columns else MEAN for key in order}
    blocks = [pd.DataFrame(rows, columns=["model", *titles.values()])]
    if shown := [title for title in titles.values() if any(values.get(title) for values in ours.values())]:
        papers = {
            f"{row} (the paper's)": {titles[key]: theirs[row].get(key) for key in titles}
            for row in PICTURED[name]
            if theirs
        }
        title = name.replace("table", "Table ") if theirs else "Regressions"
        blocks.append({name if theirs else "regressions": figures.dots(shown, papers, ours, xlabel, title)})
    return blocks


def table1(every: pd.DataFrame) -> list[Section]:
    """Table 1 of the classifications, and a table of the regressions, if there are any.

    If nobody said which seeds a result should have, it should have those that any of its table has.
    """
    sections = []
    for kind, part in chosen(every).groupby("kind"):
        theirs = paper.numbers("table1")["columns"] if kind == "classification" else []
        metric, scale, digits, xlabel = {
            "classification": ("auc", 100, 1, "ROC-AUC, %"),
            "regression": ("rmse", 1, 3, "RMSE, in the units of the labels"),
        }[kind]
        names = [*theirs, *sorted(set(part["task"]) - set(theirs))]
        titles = {name: KNOWN[name].title if name in KNOWN else name for name in names}
        columns = {name: Column(titles[name], name, TEST + metric, scale, digits) for name in names}
        part = part.assign(expected=part["expected"].replace(0, part["seed"].nunique()))
        about = f"Ours: {xlabel}, test set, mean ± standard deviation over seeds; (n=3) is their number."
        if theirs:
            about = f"The paper's: {paper.numbers('table1')['source']}. {about}"
        blocks = beside_paper("table1", part, columns, theirs, f"{xlabel}; ours: mean ± standard deviation")
        title = "Table 1: MoleculeNet" if theirs else "Regressions of molecular properties"
        sections.append(Section(title, [about, *blocks, _remarks(part, TEST + metric, theirs)]))
    return sections


def _remarks(part: pd.DataFrame, metric: str, compared: list[str]) -> list[str]:
    """What keeps the numbers of a column from being compared.

    Args:
        compared: the sets that the paper has, by scaffold splits (or by Uni-Mol's files, which are split so).
    """
    known = ("split.kind", f"{TEST}unreadable", f"{TEST}rows_sha256", f"{TEST}molecules", metric)
    part = part.reindex(columns=list(dict.fromkeys((*part, *known))))
    found = []
    for row in part.to_dict("records"):
        which = f"{row['model']}, {row['task']}, seed {row['seed']}"
        if row[f"{TEST}unreadable"] > 0:
            cannot = f"{row[f'{TEST}unreadable']:.0f} molecules of the test set, which it cannot read, are"
            found.append(f"{which}: {cannot} predicted as the mean of the training labels")
        if pd.isna(row[metric]):
            found.append(f"{which}: no {metric.rpartition('.')[2].upper()} on the test set")
        if row["task"] in compared and row["split.kind"] == "random":
            found.append(f"{which}: a random split; the paper's are by scaffold")
    key = f"{TEST}rows_sha256" if part[f"{TEST}rows_sha256"].notna().all() else f"{TEST}molecules"
    for data, runs in part.groupby("task", sort=False):
        first = runs.drop_duplicates(key)
        if len(first) > 1:
            one, other = (f"{row['model']} (seed {row['seed']})" for _, row in first.iloc[:2].iterrows())
            found.append(f"{data}: not all results are of the same test molecules: {one}, but {other}")
    return found


def table3(every: pd.DataFrame) -> list[Section]:
    """Table 3 with a row per model, a picture, and each task's best point, seeds and rows."""
    columns, results = _table3_columns(), chosen(every)
    averaged = [name for name, column in columns.items() if column.task in TASKS and name != "MNLI-mm"]
    tried = every.groupby(["model", "task"])["point"].nunique()

    def progress(part: pd.DataFrame) -> tuple[int, int]:
        """Points that are finished, and those of the grid that was asked for."""
        found = tried[part["model"].iloc[0], part["task"].iloc[0]]
        asked = part["points"].iloc[0] if "points" in part else found
        return found, found if pd.isna(asked) else int(asked)

    def remark(part: pd.DataFrame, column: Column) -> str:
        whole = (part[column.rows] == column.official).all()
        if column.task in TASKS:
            whole &= (part["rows.train"] == TASKS[column.task].official["train"]).all()
        marks = ("" if whole else "†") + ("‡" if part.get(START, pd.Series()).notna().any() else "")
        finished, all_points = progress(part)
        return marks + (f" ({finished} of {all_points} points)" if finished < all_points else "")

    xlabel = "%; ours: median, and lowest to highest seed"
    table, *pictures = beside_paper("table3", results, columns, averaged, xlabel, remark)
    cells = "".join(table.to_numpy().ravel())
    details = []
    for (model, task), part in results.groupby(["model", "task"], sort=False):
        for column in (one for one in columns.values() if one.task == task):
            row, cut = part.iloc[0], part.iloc[0].get(f"cut.{column.rows.partition('.')[2]}")
            development = f"{row[column.rows]:,.0f} of {column.official:,}"
            if isinstance(cut, list) and cut[0]:
                development += f", {cut[0]:,} cut to {cut[1]} tokens"
            training = (
                f"{row['rows.train']:,.0f} of {TASKS[task].official['train']:,}" if task in TASKS else ""
            )
            scores = ", ".join(number(score, 2) for score in part[column.metric] * column.scale)
            finished = "{} of {}".format(*progress(part))
            details.append(
                [
                    model,
                    column.title,
                    column.metric.rpartition(".")[2],
                    scores,
                    ", ".join(map(str, part["seed"])),
                ]
                + [row["point"], finished, training, development]
            )
    head = ["of", "task", "metric", "scores", "seeds", "best point", "points finished", "training rows"]
    about = (
        f"The paper's: {paper.numbers('table3')['source']}. Ours: the median over seeds of the point of the "
        "grid that is best on the development set with the first seed, in percent; (n=2 of 5) means that "
        "three seeds are missing. MEAN is over the eight tasks, with MNLI-m."
    )
    notes = [note for mark, note in MARKS.items() if mark in cells]
    details = pd.DataFrame(details, columns=[*head, "development rows"])
    return [Section("Table 3: GLUE and SQuAD 2.0", [about, table, *notes, *pictures, details])]


def table9(folders: dict[str, str], problems: list[str]) -> Section:
    """The sets of MoleculeNet as they were prepared, beside the paper's.

    Args:
        folders: set -> folder of scripts/prepare_moleculenet.py.
    """
    rows = []
    for name, (tasks, kind, *sizes) in paper.numbers("table9")["rows"].items():
        found = frame.read(Path(folders[name], "molecules.json"), problems) if name in folders else {}
        split = "/".join(f"{found['sizes'][part]['molecules']:,}" for part in found["sizes"]) if found else ""
        ours = (
            [f"{len(found['names'])}", split, found["split"]["kind"]] if found else ["not prepared", "", ""]
        )
        rows.append([KNOWN[name].title, kind, f"{tasks}", "/".join(f"{n:,}" for n in sizes), *ours])
    head = ["set", "type", "tasks, paper", "train/valid/test, paper", "tasks, ours", "train/valid/test, ours"]
    about = f"The paper's: {paper.numbers('table9')['source']}. The splits are by scaffold."
    return Section(
        "Table 9: the sets of MoleculeNet", [about, pd.DataFrame(rows, columns=[*head, "split, ours"])]
    )
