"""GLUE's part of table 3: the fine-tunings of a model, the best point of each task, its seeds.

A model is a folder with any number of result.json, as scripts/finetune_glue.sh writes them; each says which
task, point and seed it is of. model.json, if it exists, says which grid and seeds were asked for.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from recipes import paper
from recipes.command_line import RecipeError
from recipes.glue.grids import Point, points_of
from recipes.glue.tasks import TASKS
from recipes.report.page import Block, Text
from recipes.report.reader import Reader
from recipes.tables import Table, Value, number, over_seeds

RESULT = "result.json"
COLUMNS = {  # of the table -> task, split
    column: (column.removesuffix("-mm").removesuffix("-m") if "MNLI" in column else column, split)
    for column in paper.numbers("table3")["columns"]
    for split in ["valid1" if column == "MNLI-mm" else "valid"]
    if column not in ("MEAN", "EM", "F1")
}
MEAN_COLUMNS = [column for column in COLUMNS if column != "MNLI-mm"]  # the paper's MEAN takes the matched set


@dataclass(frozen=True)
class Finetuning:
    """A finished fine-tuning; ``scores`` (the task's metric, in percent) and ``rows`` by split."""

    folder: Path
    task: str
    point: Point
    seed: int
    scores: dict[str, float]
    rows: dict[str, int]
    train_rows: int
    from_mnli: bool
    cut: dict[str, tuple[int, int]]  # split -> rows that are cut, tokens that they are cut to

    @classmethod
    def parse(cls, folder: Path, content: dict) -> Finetuning:
        task = TASKS[content["task"]]
        point = Point(**{name: str(value) for name, value in content["point"].items()})
        scores = {split: 100 * float(found[task.metric]) for split, found in content["scores"].items()}
        scores["valid"]  # noqa: B018  (without it no point can be chosen)
        return cls(
            folder,
            task.name,
            point,
            int(content["seed"]),
            scores,
            {split: int(content["rows"][split]) for split in scores},
            int(content["train_rows"]),
            "init_from" in content["inputs"],
            {split: (int(rows), int(tokens)) for split, (rows, tokens) in content.get("cut", {}).items()},
        )


def _same(point: Point) -> tuple[float, ...]:
    """A point as numbers: 2e-5 and 2e-05 are the same."""
    return float(point.lr), float(point.batch), float(point.epochs), float(point.warmup)


@dataclass(frozen=True)
class Score:
    """A task's outcome with its best point.

    Attributes:
        value: the median over seeds.
        first: the fine-tuning that chose the point.
        seeds: those that ``value`` is of.
        rows, official: of the development set, as scored and as in GLUE.
        official_train: rows of GLUE's training set.
        points, finished: of the grid, and those with a result of the first seed.
    """

    value: Value
    first: Finetuning
    seeds: list[int]
    rows: int
    official: int
    official_train: int
    points: int
    finished: int

    @property
    def whole(self) -> bool:
        """Trained and scored on all rows of GLUE's sets."""
        return (self.rows, self.first.train_rows) == (self.official, self.official_train)

    def marks(self) -> str:
        marks = ("" if self.whole else "†") + ("‡" if self.first.from_mnli else "")
        return marks + (f" ({self.finished} of {self.points} points)" if self.finished < self.points else "")


@dataclass
class Model:
    """The fine-tunings of a model: task -> point as numbers -> seed.

    Attributes:
        settings: of model.json; empty if it does not exist. Its "fixed" names the first seed.
        expected: seeds that each task's best point should have; those found if nobody asked for any.
    """

    name: str
    folder: Path
    settings: dict
    expected: tuple[int, ...]
    damaged: set[str] = field(default_factory=set)  # tasks that lost a result
    tasks: dict[str, dict[tuple, dict[int, Finetuning]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(dict))
    )

    def seeds_of(self, task: str) -> tuple[int, ...]:
        found = {seed for seeds in self.tasks[task].values() for seed in seeds}
        return self.expected or tuple(sorted(found))

    def points(self, task: str) -> list[tuple[float, ...]]:
        """Of the grid that was asked for; else those that have results."""
        if "grid" not in self.settings:
            return sorted(self.tasks[task])
        return [
            _same(point) for point in points_of(TASKS[task], self.settings["grid"], self.settings.get("only"))
        ]

    def score(self, column: str) -> Score | None:
        """The median over seeds of the point that is best with the first seed (of equals, the first)."""
        name, split = COLUMNS[column]
        found, seeds = self.tasks.get(name), self.seeds_of(name) if name in self.tasks else ()
        if not found:
            return None
        points = self.points(name)
        chooser = self.settings.get("fixed", {}).get("first seed", seeds[0])
        first = {point: found[point][chooser] for point in points if chooser in found.get(point, {})}
        if not first:
            return None
        best = max(first, key=lambda point: first[point].scores["valid"])
        runs = {seed: found[best][seed] for seed in seeds if seed in found[best]}
        value = over_seeds((run.scores.get(split) for run in runs.values()), len(seeds), median=True)
        if value is None:
            return None
        official = TASKS[name].official
        rows = first[best].rows.get(split, 0)
        return Score(
            value, first[best], list(runs), rows, official[split], official["train"], len(points), len(first)
        )


def read(name: str, folder: Path, settings: dict, expected: tuple[int, ...], reader: Reader) -> Model | None:
    """The GLUE results under a folder; None if there are none.

    Raises:
        RecipeError: if two results are of one task, point and seed.
    """
    model, paths = Model(name, folder, settings, expected), sorted(folder.rglob(RESULT))
    for path in paths:
        run = reader.read(path, lambda content, path=path: Finetuning.parse(path.parent, content))
        if run is None:
            model.damaged |= TASKS.keys() & set(path.relative_to(folder).parts)
            continue
        seeds = model.tasks[run.task][_same(run.point)]
        if run.seed in seeds:
            raise RecipeError(
                f"{name}: seed {run.seed} of {run.task} with {run.point} is in {seeds[run.seed].folder} "
                f"and in {run.folder}: give the folder of a single model"
            )
        seeds[run.seed] = run
    for task, found in model.tasks.items():
        unused = [runs for point, runs in found.items() if point not in model.points(task)]
        if unused:
            reader.note(f"{name}, {task}: results outside of the grid are not used (points: {len(unused)})")
    return model if paths else None


def details(model: Model, reader: Reader) -> list[Block]:
    """Each task's best point, the score of each seed, and how much of GLUE it was trained and scored on."""
    rows = []
    for column, (name, split) in COLUMNS.items():
        score = model.score(column)
        if score is None:
            continue
        for seed in score.seeds:
            reader.record(model.tasks[name][_same(score.first.point)][seed].folder)
        cut, limit = score.first.cut.get(split, (0, 0))
        rows.append(
            [
                column,
                TASKS[name].metric,
                number(score.value.centre, 2),
                ", ".join(number(value, 2) for value in score.value.numbers),
                ", ".join(map(str, score.seeds)),
                str(score.first.point),
                f"{score.finished} of {score.points}",
                f"{score.first.train_rows:,} of {score.official_train:,}",
                f"{score.rows:,} of {score.official:,}" + (f", {cut:,} cut to {limit} tokens" if cut else ""),
                "MNLI's" if score.first.from_mnli else "pre-trained",
            ]
        )
    if not rows:
        return []
    head = ["task", "metric", "median", "scores", "seeds", "best point", "points finished"]
    head += ["training rows", "development rows", "start"]
    about = [
        f"{name} {model.settings[name]}"
        for name in ("checkpoint", "grid", "only")
        if model.settings.get(name)
    ]
    return [*([Text(f"GLUE: {', '.join(about)}.")] if about else []), Table(head, rows)]
