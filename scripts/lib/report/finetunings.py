"""The fine-tunings of models, and a table of them beside the paper's.

A model is a folder with any number of results, as the fine-tuning scripts write them; each says which task,
point and seed it is of. model.json, if it exists, says which grid and seeds were asked for.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lib import figures, paper
from lib.command_line import UserError
from lib.report.page import Picture, Pictures
from lib.report.reader import Reader
from lib.tables import Table, Value, number, over_seeds

Point = tuple[float, ...]  # of a grid; () where there is none
MEAN = "MEAN"


@dataclass(frozen=True)
class Finetuning:
    """A finished fine-tuning.

    Attributes:
        scores: by split or measure, as they are shown; None for one that is not defined. Of several points
            ``valid`` decides.
        about: what else a table says of it.
        title: the point, as the grid writes it.
    """

    folder: Path
    task: str
    seed: int | str | None
    scores: dict[str, float | None]
    about: dict
    point: Point = ()
    title: str = ""


@dataclass
class Model:
    """The fine-tunings of a model: task -> point -> seed.

    Attributes:
        settings: of model.json; empty if it does not exist. Its "fixed" names the first seed, its "points"
            those of each task's grid.
        seeds: that each task should have; empty if nobody asked for any.
        lost: the names of damaged results and of the folders that they are in.
    """

    name: str
    folder: Path
    settings: dict
    seeds: tuple[int, ...] = ()
    lost: set[str] = field(default_factory=set)
    runs: dict[str, dict[Point, dict]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(dict)))

    def read(self, pattern: str, parse: Callable[[Path, dict], Finetuning], reader: Reader) -> None:
        """Adds the results in files of one name.

        Raises:
            UserError: if two results are of one task, point and seed.
        """
        for path in sorted(self.folder.rglob(pattern)):
            run = reader.read(path, lambda content, path=path: parse(path.parent, content))
            if run is None:
                self.lost |= set(path.relative_to(self.folder).parts)
                continue
            same = self.runs[run.task][run.point]
            if run.seed in same:
                which = f"{run.task} with {run.title}" if run.title else run.task
                raise UserError(
                    f"{self.name}: seed {run.seed} of {which} is in {same[run.seed].folder} and in "
                    f"{run.folder}: give the folder of a single model"
                )
            same[run.seed] = run

    def __bool__(self) -> bool:
        """Whether there are any results, damaged or not."""
        return bool(self.runs or self.lost)

    def points(self, task: str) -> list[Point]:
        """Those that were asked for, or else have results."""
        return self.settings.get("points", {}).get(task) or sorted(self.runs[task])

    def expected(self, task: str) -> tuple:
        """The seeds that a task should have."""
        return self.seeds or tuple(_sorted({seed for runs in self.runs[task].values() for seed in runs}))

    def first(self, task: str) -> list[Finetuning]:
        """Of each point that has one the fine-tuning that counts in the choice: the first seed's."""
        points = self.points(task) if task in self.runs else []
        found = [self.runs[task][point] for point in points if point in self.runs[task]]
        if len(points) <= 1:
            return [next(iter(runs.values())) for runs in found]
        chooser = self.settings.get("fixed", {}).get("first seed", self.expected(task)[0])
        return [runs[chooser] for runs in found if chooser in runs]

    def best(self, task: str) -> list[Finetuning]:
        """The fine-tunings of the point that is best with the first seed, of equals the first; by seed."""
        first = self.first(task)
        if not first:
            return []
        best = max(first, key=lambda run: run.scores["valid"]) if len(first) > 1 else first[0]
        same = self.runs[task][best.point]
        return [same[seed] for seed in _sorted(same)]

    def value(self, task: str, score: str, *, seeds: int = 0, median: bool = False) -> Value | None:
        """A score over seeds, of which there should be ``seeds`` if nobody asked for any."""
        expected = len(self.seeds) or seeds or (len(self.expected(task)) if task in self.runs else 0)
        return over_seeds((run.scores.get(score) for run in self.best(task)), expected, median)

    def missing(self, task: str, file: str = "") -> str:
        """What stands in a cell without a number; ``file`` is that of this task's results alone."""
        if {task, file} & self.lost:
            return "damaged"
        begun = any((self.folder / part / task).is_dir() for part in ("", "glue"))
        return "unfinished" if begun else "not run"


def _sorted(seeds: Iterable[int | str | None]) -> list:
    """Numbers by size; a result by hand may have none."""
    return sorted(seeds, key=lambda seed: (str(type(seed)), seed))


@dataclass(frozen=True)
class Column:
    """Where a column's numbers come from; no task for the mean."""

    title: str
    task: str = ""
    score: str = ""


def beside_paper(
    name: str,
    models: Iterable[Model],
    columns: Mapping[str, Column],
    averaged: Collection[str],
    cell: Callable[[Model, Column], tuple[str, Value | None]],
    pictured: tuple[str, ...],
    xlabel: str,
) -> list[Table | Pictures]:
    """A table of the paper's with a row for each model, and a picture.

    Args:
        columns: by the paper's name.
        averaged: those that MEAN is over.
        cell: text and number of a column.
        pictured: the paper's rows in the picture.
    """
    theirs = paper.columns(name)
    rows = [[row, *(number(values.get(c), missing="-") for c in columns)] for row, values in theirs.items()]
    ours: dict[str, dict[str, Value | None]] = {}
    for model in models:
        cells = {key: cell(model, column) for key, column in columns.items() if key != MEAN}
        centres = [cells[key][1].centre for key in averaged if cells[key][1]]
        part = f" ({len(centres)} of {len(averaged)})" if len(centres) < len(averaged) else ""
        mean = statistics.fmean(centres) if centres else None
        cells[MEAN] = number(mean, missing="-") + (part if centres else ""), None if part else Value((mean,))
        rows.append([f"{model.name} (ours)", *(cells[key][0] for key in columns)])
        ours[rows[-1][0]] = {column.title: cells[key][1] for key, column in columns.items()}
    blocks = [Table(["model", *(c.title for c in columns.values())], rows, range(len(theirs), len(rows)))]
    shown = [c.title for c in columns.values() if any(values[c.title] for values in ours.values())]
    if shown:
        papers = {
            f"{row} (the paper's)": {column.title: theirs[row].get(key) for key, column in columns.items()}
            for row in pictured
        }
        ours = {row: values for row, values in ours.items() if any(values.values())}
        title = name.replace("table", "Table ")
        blocks.append(Pictures([Picture(name, figures.dots(shown, papers, ours, xlabel, title))]))
    return blocks
