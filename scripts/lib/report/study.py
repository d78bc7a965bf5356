"""What a study's folder holds, as numbers by run: means and spreads over seeds.

study.json              size, data, glue, seeds and targets, as the workflow was asked for them
study/NAME/lr-RATE/seed-N/
    manifest.json, train.json    the record and the outcome of a pre-training; metrics.jsonl: its curve
    MEASURE.json                measurements; glue/TASK/seed-N/result.json: fine-tunings by table 6
rates/NAME.json         the best learning rate of a run, and the seed that chose it
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TypeVar

from lib.glue.tasks import TASKS
from lib.report.reader import Reader
from lib.study.runs import GLUE_TASKS, PROBE_RATIO, Experiment, Run, experiments
from lib.tables import Value, over_seeds

TRAIN, METRICS = "train.json", "metrics.jsonl"
T = TypeVar("T")


class Study:
    """The results of the pre-trainings in OUTPUT/study.

    A row is all pre-trainings of one run of the table of runs. If its learning rate is chosen, only those
    with that rate count, and not those of the seed that chose it; while it is to be chosen, none.

    Attributes:
        settings: of study.json; empty if it does not exist.
        experiments: the targets, by name.
        begun: the folder of each pre-training that was begun, whether it counts or not.
        rates: row -> its learning rate, and the seed that chose it.
        undecided: rows whose learning rate is not chosen yet.
    """

    def __init__(self, output: Path, reader: Reader):
        self.output, self.reader = output, reader
        self.settings = reader.read(output / "study.json") or {}
        table = self.settings.get("runs_table")
        self.experiments: dict[str, Experiment] = experiments(table and Path(table))
        known = {run.name: run for one in self.experiments.values() for run in one.runs}
        self.begun: dict[Run, Path] = {}
        for folder in sorted((output / "study").glob("*/lr-*/seed-*")):
            name, lr, seed = folder.relative_to(output / "study").parts
            if name not in known:
                reader.note(f"{folder} is not used: {name} is in no table of runs")
                continue
            rate = 0.0 if lr == "lr-default" else float(lr.removeprefix("lr-"))
            self.begun[replace(known[name], lr=rate, seed=int(seed.removeprefix("seed-")))] = folder
            reader.record(folder)
        self.rates: dict[Run, tuple[float, int]] = {}
        self.undecided: set[Run] = set()
        rows = sorted({run.row for run in self.begun})
        self._folders: dict[Run, list[Path]] = {row: self._select(row) for row in rows}

    def _select(self, row: Run) -> list[Path]:
        """The folders that count, by seed."""
        runs = sorted(run for run in self.begun if run.row == row)
        path = self.output / "rates" / f"{row.name}.json"
        chosen = self.reader.read(path, lambda content: (float(content["lr"]), int(content["seed"])))
        if chosen is None and any(run.lr for run in runs):
            self.undecided.add(row)
            return []
        if chosen is None:
            return [self.begun[run] for run in runs]
        self.rates[row] = chosen
        if not all(run.lr for run in runs):
            self.reader.note(f"{row.name}: runs at the size's own learning rate are not used beside {path}")
        return [self.begun[run] for run in runs if run.lr == chosen[0] and run.seed != chosen[1]]

    def folders(self, run: Run) -> list[Path]:
        """Of each seed of a row that counts."""
        return self._folders.get(run, [])

    def read(self, run: Run, file: str, parse: Callable[[dict], T] = dict) -> list[T | None]:
        """What a file of each seed says; None for one that is missing.

        Args:
            file: or a pattern, FOLDERS/NAME; of the folders each seed should have as many.
        """
        folders, parent = self.folders(run), str(PurePath(file).parent)
        begun = [sorted(folder.glob(parent)) if parent != "." else [folder] for folder in folders]
        found = [self.reader.read(path / PurePath(file).name, parse) for paths in begun for path in paths]
        seeds = len(folders)
        if run in self.rates:  # all others that were asked for
            seeds = max(seeds, len(set(self.settings.get("seeds") or ()) - {self.rates[run][1]}))
        return found + [None] * (seeds * max(map(len, begun), default=0) - len(found))

    def curve(self, run: Run) -> list[dict]:
        """The training records of a run's metrics.jsonl, of its first seed that has some."""
        found = self.read(run, METRICS, lambda records: [one for one in records if one["kind"] == "train"])
        return next(filter(None, found), [])

    def missing(self, run: Run, file: str = TRAIN) -> str:
        """What stands in a cell that has no number, of a file or a pattern of files."""
        folders = self.folders(run)
        if run in self.undecided:
            return "rate not chosen"
        if not folders:
            return "not run"
        files = {path for folder in folders for name in (TRAIN, file) for path in folder.glob(name)}
        if files & self.reader.damaged:
            return "damaged"
        return "not measured" if any((folder / TRAIN).exists() for folder in folders) else "unfinished"

    @property
    def has_glue(self) -> bool:
        """Whether the study fine-tunes; otherwise its quality is the probe's."""
        return bool(self.settings.get("glue")) or any((self.output / "study").glob("*/*/*/glue/*/seed-*"))


@dataclass(frozen=True)
class Measure:
    """A number of each run.

    Attributes:
        title: with the unit.
        file: that it comes from, in the run's folder, or a pattern of files.
        pick: the number of the file's content, by the run; None if it has none.
        digits: shown.
    """

    title: str
    file: str
    pick: Callable[[dict, Run], float | None]
    digits: int = 1

    def value(self, study: Study, run: Run) -> Value | None:
        """Over seeds."""
        found = study.read(run, self.file, lambda content: self.pick(content, run))
        return over_seeds(found, len(found))

    def cell(self, study: Study, run: Run) -> str:
        """The value as text, or what is missing."""
        value = self.value(study, run)
        return value.text(self.digits) if value else study.missing(run, self.file)


@dataclass(frozen=True)
class Average(Measure):
    """The mean over GLUE's tasks of each task's mean, if all are there."""

    def value(self, study: Study, run: Run) -> Value | None:
        means = [glue(task).value(study, run) for task in GLUE_TASKS]
        if not all(means):
            return None
        if len({(len(value.numbers), value.expected) for value in means}) > 1:
            return over_seeds([statistics.fmean(value.centre for value in means)])
        per_seed = zip(*(value.numbers for value in means), strict=True)  # each has all four
        return over_seeds(map(statistics.fmean, per_seed), means[0].expected)


def glue(task: str) -> Measure:
    """Accuracy in percent over pre-training and fine-tuning seeds, of each fine-tuning's best epoch.

    Args:
        task: ``MNLI`` is the mean of matched and mismatched, ``MNLI-m`` and ``MNLI-mm`` are each of them;
            ``Avg`` is the mean over the four tasks.
    """
    name, _, half = task.partition("-")
    if name == "Avg":
        return Average(task, "glue/*/seed-*/result.json", lambda content, run: None)
    splits = {"m": ("valid",), "mm": ("valid1",)}.get(half, TASKS[name].valid_splits)

    def pick(content: dict, run: Run) -> float:
        return statistics.fmean(100 * content["scores"][split]["accuracy"] for split in splits)

    return Measure(task, f"glue/{name}/seed-*/result.json", pick)


def measured(
    title: str, file: str, name: str, share: float | None = None, *, scale: float = 1, digits: int = 2
) -> Measure:
    """A figure of fs_plugins.analysis, or its mean, at a share of masked words (default: the model's own), of
    the last checkpoint if there are several."""

    def pick(content: dict, run: Run) -> float | None:
        results = content["rows"][-1]["results"] if "rows" in content else content["results"]
        found = next((one[name] for one in results if one["mask_prob"] == (share or run.own_ratio)), None)
        value = found["mean"] if isinstance(found, dict) else found
        return None if value is None else scale * value

    return Measure(title, f"{file}.json", pick, digits)


def probe(own: bool = False) -> tuple[Measure, Measure]:
    """Recovery of masked tokens, in percent and in bits, at 15% or at the model's own share."""
    share, where = (None, "the model's own p") if own else (PROBE_RATIO, f"p = {PROBE_RATIO:.0%}")
    recovered = measured(f"recovered at {where}, %", "probe", "accuracy", share, scale=100, digits=1)
    return recovered, measured(f"bits at {where}", "probe", "bits", share, digits=3)


def entropy(name: str = "entropy") -> Measure:
    """Bits: ``entropy`` (the mean over states), or ``entropy_posterior``."""
    return Measure(name, "entropy.json", lambda content, run: (content[name] or {}).get("mean"), 2)


HOURS = Measure("hours, ours", TRAIN, lambda content, run: content["training_seconds"] / 3600, 3)


def times(study: Study, run: Run, baseline: Run, cost: Measure = HOURS) -> float | None:
    """The cost of a run by that of another."""
    own, other = cost.value(study, run), cost.value(study, baseline)
    return own.centre / other.centre if own and other and other.centre else None


def by_label(
    study: Study, runs: Iterable[Run], measure: Measure, place: Callable[[Run], float | None]
) -> dict[str, dict[float, Value]]:
    """Label -> place of a run on the x axis -> value."""
    values: dict[str, dict[float, Value]] = {run.label: {} for run in runs}
    for run in runs:
        if (value := measure.value(study, run)) and (x := place(run)):
            values[run.label][x] = value
    return values
