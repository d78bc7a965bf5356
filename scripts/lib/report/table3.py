"""Table 3: GLUE and SQuAD of one or more models, beside the paper's."""

from __future__ import annotations

import re
from pathlib import Path

from lib import paper
from lib.glue import grids
from lib.glue.evaluate import RESULT
from lib.glue.tasks import TASKS
from lib.report.finetunings import MEAN, Column, Finetuning, Model, Point, beside_paper
from lib.report.page import Block, Section
from lib.report.reader import Reader
from lib.tables import Table, Value, escape, number

SQUAD, QUESTIONS = "squad", 11_873  # of SQuAD 2.0's development set
SQUAD_RESULT = "scores.json"
SQUAD_MEASURES = ("exact", "f1", "HasAns_f1", "NoAns_f1", "best_exact", "best_f1")
OFFICIAL = {name: task.official for name, task in TASKS.items()}  # rows
OFFICIAL[SQUAD] = {"train": 0, **dict.fromkeys(SQUAD_MEASURES, QUESTIONS)}
COLUMNS = {
    name: {MEAN: Column(MEAN), "EM": Column("EM", SQUAD, "exact"), "F1": Column("F1", SQUAD, "f1")}.get(
        name, Column(name, name.partition("-m")[0], "valid1" if name == "MNLI-mm" else "valid")
    )
    for name in paper.numbers("table3")["columns"]
}
AVERAGED = [name for name, column in COLUMNS.items() if column.task in TASKS and name != "MNLI-mm"]
PICTURED = ("RoBERTa*", "ExLM")  # the paper's rows that ours are comparable with
NOTES = {
    "†": "† not the whole training or development set, so not comparable with the paper; see below.",
    "‡": "‡ started from a model fine-tuned on MNLI.",
}


def _point(point: grids.Point) -> Point:
    """As numbers: 2e-5 and 2e-05 are the same."""
    return float(point.lr), float(point.batch), float(point.epochs), float(point.warmup)


def _parse_glue(folder: Path, content: dict) -> Finetuning:
    """A result of GLUE: the task's metric by split, in percent."""
    task = TASKS[content["task"]]
    point = grids.Point(**{name: str(value) for name, value in content["point"].items()})
    scores = {split: 100 * float(found[task.metric]) for split, found in content["scores"].items()}
    scores["valid"]  # noqa: B018  (without it no point can be chosen)
    about = {
        "rows": {split: int(content["rows"][split]) for split in scores},
        "train_rows": int(content["train_rows"]),
        "from MNLI": "init_from" in content["inputs"],
        "cut": {split: (int(rows), int(tokens)) for split, (rows, tokens) in content.get("cut", {}).items()},
    }
    return Finetuning(folder, task.name, int(content["seed"]), scores, about, _point(point), str(point))


def _parse_squad(folder: Path, content: dict) -> Finetuning:
    """A result of SQuAD, in percent, at the threshold of the training; of a seed by its folder's name."""
    content["exact"], content["f1"]  # noqa: B018  (what every evaluation has)
    scores = {name: float(content[name]) for name in SQUAD_MEASURES if name in content}
    seed = re.fullmatch(r"seed-(\d+)", folder.name)
    rows = dict.fromkeys(SQUAD_MEASURES, int(content["total"]))
    about = {"rows": rows, "train_rows": 0, "from MNLI": False, "cut": {}}
    return Finetuning(folder, SQUAD, int(seed[1]) if seed else str(folder), scores, about)


def _settings(content: dict) -> dict:
    """model.json, with the points of its grid."""
    points = {}
    if "grid" in content:
        only = content.get("only")
        points = {name: grids.points_of(task, content["grid"], only) for name, task in TASKS.items()}
        points = {name: list(map(_point, found)) for name, found in points.items()}
    return {**content, "points": points, "seeds": tuple(int(seed) for seed in content.get("seeds", ()))}


def read(name: str, folder: Path, reader: Reader, seeds: tuple[int, ...] = ()) -> Model | None:
    """A model's results of table 3; None if its folder holds none of them.

    Args:
        seeds: that results should have, if the folder's model.json does not say.

    Raises:
        UserError: if two results are of one task, point and seed.
    """
    settings = reader.read(folder / "model.json", _settings) or {}
    model = Model(name, folder, settings, settings.get("seeds") or seeds)
    model.read(RESULT, _parse_glue, reader)
    model.read(SQUAD_RESULT, _parse_squad, reader)
    for task, found in model.runs.items():
        if unused := set(found) - set(model.points(task)):
            reader.note(f"{name}, {task}: results outside of the grid are not used (points: {len(unused)})")
    return model if model or settings else None


def _marks(model: Model, column: Column) -> str:
    """What a number is not comparable in."""
    official, runs = OFFICIAL[column.task], [run.about for run in model.best(column.task)]
    sizes = {(about["rows"].get(column.score), about["train_rows"]) for about in runs}
    marks = "" if sizes == {(official[column.score], official["train"])} else "†"
    marks += "‡" if runs[0]["from MNLI"] else ""
    points, finished = len(model.points(column.task)), len(model.first(column.task))
    return marks + (f" ({finished} of {points} points)" if finished < points else "")


def _cell(model: Model, column: Column) -> tuple[str, Value | None]:
    value = model.value(column.task, column.score, median=True)
    if value:
        return value.text() + _marks(model, column), value
    return model.missing(column.task, SQUAD_RESULT if column.task == SQUAD else ""), None


def _details(model: Model, reader: Reader) -> list[Block]:
    """Each task's best point, the score of each seed, and how much of the data it is of."""
    more = [Column(f"SQuAD, {name}", SQUAD, name) for name in SQUAD_MEASURES[2:]]
    rows = []
    for column in [*COLUMNS.values(), *more]:
        task, split = column.task, column.score
        if not task or not (value := model.value(task, split, median=True)):
            continue
        runs, official = model.best(task), OFFICIAL[task]
        for run in runs:
            reader.record(run.folder)
        about = runs[0].about
        cut, limit = about["cut"].get(split, (0, 0))
        rows.append(
            [
                column.title,
                TASKS[task].metric if task in TASKS else split,
                number(value.centre, 2),
                ", ".join(number(score, 2) for score in value.numbers),
                ", ".join(str(run.seed) for run in runs),
                runs[0].title,
                f"{len(model.first(task))} of {len(model.points(task))}",
                f"{about['train_rows']:,} of {official['train']:,}" if official["train"] else "",
                f"{about['rows'].get(split, 0):,} of {official[split]:,}"
                + (f", {cut:,} cut to {limit} tokens" if cut else ""),
                "MNLI's" if about["from MNLI"] else "pre-trained",
            ]
        )
    if not rows:
        return [escape("No result yet.")]
    head = ["task", "metric", "median", "scores", "seeds", "best point", "points finished"]
    head += ["training rows", "development rows", "start"]
    settings = {name: model.settings.get(name) for name in ("checkpoint", "grid", "only")}
    about = [f"{name}: {value}" for name, value in settings.items() if value]
    if SQUAD in model.runs:
        about.append("best_exact and best_f1: at the thresholds that are best on this very set")
    return [Table(head, rows), *([escape("; ".join(about))] if about else [])]


def section(models: list[Model], reader: Reader) -> Section:
    """Table 3 with a row per model, a picture, and the details of each model."""
    xlabel = "%; ours: median, and lowest to highest seed"
    table, *pictures = beside_paper("table3", models, COLUMNS, AVERAGED, _cell, PICTURED, xlabel)
    texts = "".join(cell for i in table.ours for cell in table.rows[i][1:])
    about = (
        f"The paper's: {paper.numbers('table3')['source']}. Ours: the median over seeds of the point of the "
        "grid that is best on the development set with the first seed, in percent; (n=2 of 5) means that "
        "three seeds are missing. MEAN is over the eight tasks, with MNLI-m."
    )
    notes = [escape(note) for mark, note in NOTES.items() if mark in texts]
    details = [Section(f"Details of {one.name}", _details(one, reader)) for one in models]
    return Section("Table 3: GLUE and SQuAD 2.0", [escape(about), table, *notes, *pictures], details)
