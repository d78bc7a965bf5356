"""The pre-trainings of figures, tables and comparisons: scripts/workflow/runs.csv, a row each.

Columns of a table of runs: ``name`` (of its folder), ``targets`` (the figures, tables and comparisons that
need it), ``label`` (what a reader calls it, without its p), ``model`` (of configs/model/), ``k``, ``p``;
``times`` (as many updates as the others; 1 if empty), ``flags`` (more of fairseq-train's) and ``rates``
(learning rates to try, instead of the setting ``rates``), which may be empty. targets.csv has each target's
title and what is measured of its runs; the measures of a target that is not there are DEFAULT_MEASURES.

The vanilla MLM of the paper's study is Repeated MLM with k = 1, which gives the batches and the loss of
fairseq's ``masked_lm`` exactly, and logs the corrupted proportion besides.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

from lib.command_line import UserError
from lib.folders import CONFIGS

WORKFLOW = CONFIGS.parent / "scripts" / "workflow"
LARGEST_K = 16
PROBE_RATIO = 0.15
GLUE_TASKS = ("MNLI", "QNLI", "QQP", "RTE")  # of GLUE's eight, those of the paper's study

# measurements of a run besides its training; "quality" is fine-tuning where GLUE is given, else the probe
ENTROPY, QUALITY, QUALITY_MNLI = "entropy", "quality", "quality-mnli"
# those of lib.study.measures
PROBE, CURVE, JOINT, FILLING, ATOMS, USE_OF_STATES = "probe", "curve", "joint", "filling", "atoms", "states"
DEFAULT_MEASURES = (PROBE, CURVE, JOINT, USE_OF_STATES)


@dataclass(frozen=True, order=True)
class Run:
    """A row of a table of runs; with ``seed`` and ``lr`` one pre-training of it.

    Attributes:
        times: as many updates as the others.
        flags: fairseq-train's, besides those of model, size and settings.
        rates: learning rates to try; none: those of the settings.
        lr: peak learning rate; 0: the size's.
    """

    name: str
    targets: tuple[str, ...] = ()
    label: str = ""
    model: str = "exlm"
    k: int = 4
    p: float = 0.15
    times: float = 1.0
    flags: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()
    seed: int = 1
    lr: float = 0.0

    @property
    def folder(self) -> Path:
        """In OUTPUT/study."""
        return Path(self.name, f"lr-{self.lr:g}" if self.lr else "lr-default", f"seed-{self.seed}")

    @property
    def row(self) -> Run:
        """The run that stands for all of the same row."""
        return replace(self, seed=1, lr=0.0)

    @property
    def own_ratio(self) -> float:
        """The share of masked words that the model was trained with; 15% if tokens were repeated."""
        return self.p if self.k == 1 or self.model != "repeated-mlm" else PROBE_RATIO

    @property
    def is_mlm(self) -> bool:
        """Whether it is the vanilla MLM."""
        return self.model == "mlm" or (self.model == "repeated-mlm" and self.k == 1)


@dataclass(frozen=True)
class Experiment:
    """A figure, table or comparison: its runs and what is measured of them."""

    title: str
    runs: tuple[Run, ...]
    measures: tuple[str, ...]
    of_the_paper: bool


def read_runs(path: Path) -> list[Run]:
    """A table of runs.

    Raises:
        UserError: for a row that is none, naming file and line.
    """
    found: list[Run] = []
    names = [field.name for field in fields(Run)][:9]
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file, strict=True)
            missing = {"name", "model", "k", "p"} - set(reader.fieldnames or ())
            unknown = set(reader.fieldnames or ()) - set(names)
            if missing or unknown:
                what = f"has no column {min(missing)}" if missing else f"has an unknown column {min(unknown)}"
                raise UserError(f"{path} {what}: a table of runs has the columns {', '.join(names)}")
            for row in reader:
                found.append(_run(row, f"{path}, line {reader.line_num}"))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{path}: {error}") from None
    seen: set[str] = set()
    for run in found:
        if run.name in seen:
            raise UserError(f"{path} has two runs named {run.name}: give each a name of its own")
        seen.add(run.name)
    return found


def _run(row: dict, where: str) -> Run:
    if None in row or None in row.values():
        raise UserError(f"{where}: the row has not as many cells as the header")
    name, models = row["name"], sorted(path.stem for path in (CONFIGS / "model").glob("*.flags"))
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
        raise UserError(f"{where}: name '{name}': use letters, digits, '.', '-' and '_'")
    if row["model"] not in models:
        raise UserError(f"{where}: unknown model '{row['model']}': choose one of {', '.join(models)}")
    try:
        k, p, times = int(row["k"]), float(row["p"]), float(row.get("times") or 1)
        rates = tuple(map(float, (row.get("rates") or "").split()))
    except ValueError as error:
        raise UserError(f"{where}: {error}") from None
    if not 1 <= k <= LARGEST_K:
        raise UserError(f"{where}: k = {k}: give a whole number from 1 to {LARGEST_K}")
    if not 0 < p < 1:
        raise UserError(f"{where}: p = {p:g}: give a share between 0 and 1, such as 0.15")
    if not times > 0 or min(rates, default=1.0) <= 0:
        raise UserError(f"{where}: times and rates are numbers above 0")
    texts = {name: tuple((row.get(name) or "").split()) for name in ("targets", "flags")}
    return Run(
        name, texts["targets"], row.get("label") or name, row["model"], k, p, times, texts["flags"], rates
    )


@cache
def experiments(more: Path | None = None) -> dict[str, Experiment]:
    """The targets of runs.csv, and those of one more table of runs.

    Raises:
        UserError: of :func:`read_runs`, or if both tables have a run or a target of one name.
    """
    runs, papers = read_runs(WORKFLOW / "runs.csv"), WORKFLOW / "targets.csv"
    with papers.open(newline="", encoding="utf-8") as file:
        about = {row["target"]: row for row in csv.DictReader(file)}
    known = {run.name for run in runs}
    added = read_runs(more) if more else []
    for run in added:
        if clash := ({run.name} & known) or (set(run.targets) & about.keys()):
            raise UserError(f"{more}: {min(clash)} stands in scripts/workflow/ too: choose another name")
        if not run.targets:
            raise UserError(f"{more}: {run.name} has no targets: name the comparison that it belongs to")
    found = {}
    for name in dict.fromkeys([*about, *(target for run in added for target in run.targets)]):
        row = about.get(name, {})
        measures = tuple(row["measures"].split()) if row else DEFAULT_MEASURES
        chosen = tuple(run for run in [*runs, *added] if name in run.targets)
        of_the_paper = name.startswith(("figure", "table"))
        found[name] = Experiment(row.get("title") or name, chosen, measures, of_the_paper)
    return found


def expand(
    known: dict[str, Experiment],
    names: Iterable[str],
    seeds: Iterable[int] = (1,),
    only: dict[str, str] | None = None,
) -> dict[Run, set[str]]:
    """The runs that targets need, each once, with everything that is measured of it.

    Args:
        known: of :func:`experiments`.
        names: of ``known``, or "all" of the paper's.
        seeds: of the pre-training; the first seed's runs come first.
        only: column of the table of runs -> value; runs that differ are left out.

    Raises:
        UserError: for an unknown target or column, or where no run is left.
    """
    names, only = list(names), only or {}
    if unknown := set(names) - known.keys() - {"all"}:
        raise UserError(f"unknown target {min(unknown)!r}: choose from {', '.join(known)} and all")
    wanted = [name for name in known if name in names or ("all" in names and known[name].of_the_paper)]
    columns = ("name", "model", "k", "p", "times")
    if unknown := only.keys() - set(columns):
        raise UserError(f"only={min(unknown)}={only[min(unknown)]}: a run has {', '.join(columns)}")
    for column in only.keys() & {"k", "p", "times"}:
        try:
            float(only[column])
        except ValueError:
            raise UserError(f"only={column}={only[column]}: {column} is a number") from None

    def asked(run: Run) -> bool:
        values = {name: getattr(run, name) for name in only}
        return all(value == type(value)(only[name]) for name, value in values.items())

    runs: dict[Run, set[str]] = {}
    for seed in seeds:
        for name in wanted:
            for run in filter(asked, known[name].runs):
                runs.setdefault(replace(run, seed=seed), set()).update(known[name].measures)
    if not runs:
        every = {run for name in wanted for run in known[name].runs}
        there = "; ".join(f"{c}: {', '.join(sorted({f'{getattr(r, c)}' for r in every}))}" for c in only)
        text = ",".join(f"{name}={value}" for name, value in only.items())
        raise UserError(f"only={text} leaves no run of {', '.join(names)}, which has {there}")
    return runs
