"""The pre-trainings of figures, tables and comparisons: scripts/workflow/runs.csv, a row each.

Columns of a table of runs: ``name`` (of its folder), ``targets`` (the figures, tables and comparisons that
need it), ``label`` (what a reader calls it, without its p), ``model`` (of configs/model/), ``k``, ``p``;
``times`` (as many updates as the others; 1 if empty), ``flags`` (more of fairseq-train's), ``rates``
(learning rates to try, instead of the setting ``rates``) and ``size`` (of configs/pretrain/, in place of
``paper``), which may be empty. targets.toml has each target's title, what is measured of its runs and what
is shown; a comparison that is not there is like ``graphs``.

The vanilla MLM of the paper's study is Repeated MLM with k = 1, which gives the batches and the loss of
fairseq's ``masked_lm`` exactly, and logs the corrupted proportion besides.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import pandas as pd
from lib.command_line import Flags, UserError
from lib.files import CONFIGS
from lib.workflow.benchmarks import BENCHMARKS, TABLES

from fs_plugins.criterions import trains_transitions
from fs_plugins.files import naming_errors

WORKFLOW = CONFIGS.parent / "scripts" / "workflow"
REQUIRED, OPTIONAL = ("name", "targets", "model", "k", "p"), ("label", "times", "flags", "rates", "size")
# Flags that identify a run, or that have their own setting
NOT_IN_FLAGS = {"--max-update", "--total-num-update", "--mask-prob", "--ext-state-num", "--repeat-times"}
NOT_IN_FLAGS |= {"--k", "--p", "--updates", "--gpus", "--cpu"}  # options of the training scripts
NOT_IN_FLAGS |= {"--task", "--criterion", "--arch", "--seed", "--save-dir", "--restore-file", "--user-dir"}
NOT_IN_FLAGS |= {"--print", "--help"}
# Of the folders in OUTPUT: the pre-trainings'; what was chosen among several; a learning rate of the size's
STUDY, BEST, DEFAULT = "study", "best", "default"
PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")  # names of folders and files
PROBE_P = 0.15
GLUE_TASKS = ("MNLI", "QNLI", "QQP", "RTE")  # tasks of the paper's study, of GLUE's eight
MOLECULES = {one.table for one in BENCHMARKS.values() if one.reads_smiles}  # tables of theirs
ABOUT = tomllib.loads((WORKFLOW / "targets.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Run:
    """A row of a table of runs; with ``lr`` and ``seed`` one pre-training of it."""

    name: str
    targets: tuple[str, ...] = ()
    label: str = ""
    model: str = "exlm"
    k: int = 4
    p: float = 0.15
    times: float = 1.0
    flags: tuple[str, ...] = ()
    rates: tuple[float, ...] = ()
    size: str = ""  # size in a reproduction of the paper, if it is not the study's
    lr: str = DEFAULT  # one of ``rates`` to try, BEST or DEFAULT
    seed: int = 1

    @property
    def place(self) -> Path:
        """Returns the folder of all its pre-trainings, in OUTPUT."""
        return Path(STUDY, self.name)

    @property
    def folder(self) -> Path:
        """Returns the folder of a pre-training, in OUTPUT."""
        return self.place / f"lr-{self.lr}" / f"seed-{self.seed}"

    @property
    def best(self) -> Path | None:
        """Returns the flags of the best learning rate, if it is to be trained with that."""
        return self.place / "best.flags" if self.lr == BEST else None

    @property
    def own_p(self) -> float:
        """Returns the p at which it is measured: that of its training; the probe's if tokens were
        repeated."""
        return self.p if self.k == 1 or self.model != "repeated-mlm" else PROBE_P

    @property
    def of_molecules(self) -> bool:
        """Returns whether it is trained on ``smiles``, to be fine-tuned on molecules."""
        return not MOLECULES.isdisjoint(self.targets)

    @property
    def has_paths(self) -> bool:
        """Returns whether its states are on paths, which can be measured."""
        folder = CONFIGS / "model" / ("smiles" if self.of_molecules else "")
        flags = Flags.read(folder / f"{self.model}.flags")
        return trains_transitions((flags | Flags.of(self.flags)).value("--criterion"))

    def as_json(self) -> str:
        """Returns the row as JSON, for train.json."""
        return json.dumps({**asdict(self), "own_p": self.own_p})


@dataclass(frozen=True)
class Target:
    """A figure, table or comparison, as targets.toml has it."""

    name: str
    title: str
    runs: tuple[Run, ...]  # pre-trainings that it needs
    measures: Sequence[str] = ()  # measures of these
    numbers: Sequence[str] = ()  # numbers in the report; ``without_glue``: those shown instead
    without_glue: Sequence[str] = ()
    # ``grid``, ``lines`` or ``curves``, if it is a figure; of an example, the name of its PNG
    picture: str = ""
    note: str = ""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Returns the tasks of GLUE whose accuracies are among the numbers."""
        return tuple(task for task in GLUE_TASKS if {task, f"{task}-m"} & {*self.numbers})

    @property
    def of_the_paper(self) -> bool:
        return self.name.startswith(("figure", "table"))

    @property
    def of_benchmarks(self) -> bool:
        """Returns whether it is of fine-tuned models, or of what they are fine-tuned on."""
        return any(self.name in (one.table, one.sets_table) for one in BENCHMARKS.values())

    @property
    def of_the_study(self) -> bool:
        """Returns whether the paper's study of [MASK] has it."""
        return self.of_the_paper and not self.of_benchmarks


def read_runs(path: Path) -> list[Run]:
    """Returns the runs of a table. Raises ValueError for a row that is none, naming file and line, and for
    two runs that would be taken for one."""
    with naming_errors(path):  # pandas would cut off a first row's cells beyond its header
        table = pd.read_csv(path, dtype=str, keep_default_na=False, header=None, skipinitialspace=True)
    names = [*table.iloc[0]]
    rows = table[1:].set_axis(names, axis=1)
    if wrong := [name for name in names if name not in (*REQUIRED, *OPTIONAL) or names.count(name) > 1]:
        known = ", ".join((*REQUIRED, *OPTIONAL))
        raise UserError(f"{path}: unknown or second column {wrong[0]!r}; known are {known}")
    if (twice := rows["name"][rows["name"].duplicated()]).size:
        raise UserError(f"{path} has two runs named {twice.iloc[0]}: give each its own name")
    runs = [_run(row, f"{path}, line {i}") for i, row in enumerate(rows.to_dict("records"), 2)]
    labels = {}  # runs that are alike in these would pass for seeds of one
    for one, target in [(run, target) for run in runs for target in run.targets]:
        other = labels.setdefault((target, one.label, one.p, one.times), one.name)
        if other != one.name:
            raise UserError(f"{path}: {other} and {one.name} have the label {one.label!r}: give each its own")
    return runs


def _run(row: dict[str, str], where: str) -> Run:
    with naming_errors(where):
        lists = {name: tuple(row.get(name, "").split()) for name in ("targets", "rates")}
        lists["flags"] = tuple(shlex.split(row.get("flags", "")))
        lists["rates"] = tuple(map(float, lists["rates"]))
        numbers = {"k": int(row["k"]), "p": float(row["p"]), "times": float(row.get("times") or 1)}
        texts = {"label": row.get("label") or row["name"], "model": row["model"], "size": row.get("size", "")}
        run = Run(row["name"], **texts, **lists, **numbers)
    if not run.targets or not all(map(PLAIN.fullmatch, (run.name, *run.targets))):
        raise UserError(f"{where}: {run.name}: give it a name and targets of letters, digits, . - _")
    if taken := sorted(NOT_IN_FLAGS & Flags.of(run.flags).keys()):
        raise UserError(f"{where}: flags {', '.join(taken)}: use the columns model, k, p, times, or settings")
    return run


@cache
def targets(more: Path | None = None) -> dict[str, Target]:
    """Returns the targets of runs.csv by name, and those of one more table of runs. Raises UserError of
    :func:`read_runs`, or if both tables have a run or a target of one name."""
    runs, added = read_runs(WORKFLOW / "runs.csv"), read_runs(more) if more else []
    known = ABOUT["targets"]
    for run in added:
        if clash := ({run.name} & {run.name for run in runs}) or ({*run.targets} & known.keys()):
            raise UserError(f"{more}: {min(clash)} stands in scripts/workflow/ too: choose another name")
    names = dict.fromkeys([*known, *TABLES, *(target for run in added for target in run.targets)])
    every = [*runs, *added]
    return {
        name: Target(name, runs=tuple(run for run in every if like(name) in run.targets), **_about(name))
        for name in names
    }


def like(name: str) -> str:
    """Returns a target, or of a benchmark's own table the paper's, whose models it compares."""
    if name in ABOUT["targets"] or name not in TABLES:
        return name
    return "table1" if name in MOLECULES else "table3"


def _about(name: str) -> dict:
    """Returns what targets.toml says of a target, and of the one that it is like."""
    own = next((one.title for one in BENCHMARKS.values() if one.table == name), None)
    new = {"title": own} if own else {"like": "graphs", "title": name}
    about = dict(ABOUT["targets"].get(name, new))
    return {**_about(about.pop("like")), **about} if "like" in about else about
