"""Writes table 3's GLUE: the paper's numbers, and the medians of one or more folders of run_glue.py.

python scripts/report_glue.py ExLM=runs/glue/exlm MLM=runs/glue/mlm --output table3.md
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from recipes.glue.grids import Point, points_of
from recipes.glue.sweep import Finetuning as Run
from recipes.glue.sweep import Sweep, best_point, result_of, scores_of_points, scores_over_seeds
from recipes.glue.tasks import TASKS
from recipes.study.folder import FolderError, read_json

PAPER = json.loads(
    Path(__file__).with_name("recipes").joinpath("glue", "table3.json").read_text(encoding="utf-8")
)
COLUMNS = {  # of the table -> task, split
    column: (column.removesuffix("-mm").removesuffix("-m") if "MNLI" in column else column, split)
    for column in PAPER["columns"][:-1]
    for split in ["valid1" if column == "MNLI-mm" else "valid"]
}
MEAN_COLUMNS = [column for column in COLUMNS if column != "MNLI-mm"]  # the paper's MEAN takes the matched set


@dataclass(frozen=True)
class TaskScore:
    """A task's outcome with its best point: the metric in percent of each seed, and of how many rows."""

    point: Point
    scores: list[float]
    rows: int
    official: int
    train_rows: int
    official_train: int
    init_from: str | None
    points: int  # of the grid
    finished: int  # of these, with the first seed
    cut: tuple[int, int]  # rows that are cut, and the tokens they are cut to

    @property
    def whole(self) -> bool:
        """Trained and scored on all rows of GLUE's sets."""
        return (self.rows, self.train_rows) == (self.official, self.official_train)

    @property
    def median(self) -> float:
        return statistics.median(self.scores)


class Model:
    """A folder of run_glue.py.

    Raises:
        FolderError: if it is none.
    """

    def __init__(self, name: str, output: Path):
        self.name, self.output = name, output
        settings, seeds = (read_json(output / f"{what}.json") for what in ("settings", "seeds"))
        if settings is None or seeds is None or "checkpoint" not in settings:
            raise FolderError(f"{output} is no --output folder of run_glue.py")
        self.settings, self.seeds = settings, seeds
        init_from = Path(settings["init_from"][0]) if settings["init_from"] else None
        self.sweep = Sweep(output, Path(settings["checkpoint"][0]), Path(settings["data"]), init_from)

    def score(self, column: str) -> TaskScore | None:
        name, split = COLUMNS[column]
        task = TASKS[name]
        points = points_of(task, self.settings["grid"], self.settings["only"])
        point = best_point(self.sweep, name, points, self.seeds)
        scores = scores_over_seeds(self.sweep, name, point, self.seeds).get(split) if point else None
        if not scores:
            return None
        first = result_of(self.sweep, Run(name, **vars(point), seed=self.seeds[0]))
        if "data" in first:
            train = first["data"]["train_rows"]
        else:  # of before that was recorded
            summary = read_json(self.sweep.data / f"{name}-bin" / "summary.json") or {}
            train = summary.get("train", {}).get("kept", 0)
        return TaskScore(
            point,
            [100 * value for value in scores],
            first["rows"][split],
            task.official[split],
            train,
            task.official["train"],
            first["init_from"],
            len(points),
            len(scores_of_points(self.sweep, name, points, self.seeds)),
            tuple(first.get("cut", {}).get(split, (0, 0))),
        )


def markdown_table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f}"


def table3(models: list[Model]) -> str:
    rows = [[name, *map(cell, values)] for name, values in PAPER["rows"].items()]
    notes = set()
    for model in models:
        found = {column: model.score(column) for column in COLUMNS}
        cells = []
        for score in found.values():
            marks = ""
            if score is not None:
                marks += "" if score.whole else "†"
                marks += "‡" if score.init_from else ""
                marks += "" if len(score.scores) == len(model.seeds) else f" ({len(score.scores)} seeds)"
                if score.finished < score.points:
                    marks += f" ({score.finished} of {score.points} points)"
            notes |= {mark for mark in marks if mark in "†‡"}
            cells.append("" if score is None else cell(score.median) + marks)
        medians = [found[column].median for column in MEAN_COLUMNS if found[column]]
        whole = len(medians) == len(MEAN_COLUMNS)
        mean = cell(statistics.fmean(medians)) if medians else ""
        cells.append(mean if whole or not medians else f"{mean} ({len(medians)} tasks)")
        rows.append([f"**{model.name}** (ours)", *cells])
    text = markdown_table(["model", *COLUMNS, "MEAN"], rows)
    if "†" in notes:
        text += (
            "\n† not GLUE's whole training or development set, so not comparable with the paper; see below.\n"
        )
    if "‡" in notes:
        text += "\n‡ started from a model fine-tuned on MNLI.\n"
    return text


def details(model: Model) -> str:
    rows = []
    for column, (name, _) in COLUMNS.items():
        score = model.score(column)
        if score is None:
            continue
        rows.append(
            [
                column,
                TASKS[name].metric,
                f"{score.median:.2f}",
                ", ".join(f"{value:.2f}" for value in score.scores),
                str(score.point),
                f"{score.train_rows:,} of {score.official_train:,}",
                f"{score.rows:,} of {score.official:,}"
                + (f", {score.cut[0]:,} cut to {score.cut[1]} tokens" if score.cut[0] else ""),
                "MNLI's" if score.init_from else "pre-trained",
            ]
        )
    head = ["task", "metric", "median", "seeds", "best point", "training rows", "dev rows", "start"]
    about = f"{model.sweep.checkpoint}, grid {model.settings['grid']}"
    about += f", only {model.settings['only']}" if model.settings["only"] else ""
    return f"## {model.name}\n\n{about}; seeds {model.seeds}\n\n{markdown_table(head, rows)}"


def text_of(models: list[Model]) -> str:
    note = (
        f"The paper's: {PAPER['source']}. Ours: median over seeds of the point of the grid that is best on "
        "the development set with the first seed, in percent; MEAN is over the eight tasks, with MNLI-m."
    )
    parts = ["# GLUE\n", note + "\n", table3(models), *(details(model) for model in models)]
    return "\n".join(parts)


def main(argv=None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("folders", nargs="+", metavar="[NAME=]DIR", help="--output folders of run_glue.py")
    parser.add_argument("--output", type=Path, metavar="FILE", help="write it there (default: show it)")
    args = parser.parse_args(argv)
    try:
        models = []
        for given in args.folders:
            name, _, path = given.partition("=")
            if Path(given).is_dir() or not path:
                name, path = Path(given).name, given
            models.append(Model(name, Path(path)))
        if len({model.name for model in models}) < len(models):
            raise FolderError("two models have one name: give each its own by NAME=DIR")
        text = text_of(models)
        if args.output is None:
            print(text)
        else:
            partial = args.output.with_name(args.output.name + ".partial")
            partial.write_text(text, encoding="utf-8")
            partial.replace(args.output)
    except (FolderError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
