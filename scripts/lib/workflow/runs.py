"""The pre-trainings of figures and tables: scripts/workflow/runs.csv, a row each.

Its columns: ``name`` (of the run's folder), ``targets`` (the figures and tables that need it), ``label``
(without its p), ``model`` (of configs/model/), ``k``, ``p``; ``times`` (as many updates as the others; 1 if
empty) and ``size`` (of configs/pretrain/, in place of ``paper``), which may be empty. targets.toml has each
target's title, what is measured of its runs and what is shown.

The vanilla MLM of the paper's study is Repeated MLM with k = 1, which gives the batches and the loss of
fairseq's ``masked_lm`` exactly, and logs the corrupted proportion besides.
"""

import json
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import pandas as pd
from lib.files import CONFIGS
from lib.workflow.benchmarks import BENCHMARKS

WORKFLOW = CONFIGS.parent / "scripts" / "workflow"
# Flags that identify a run, or that have their own setting
NOT_IN_FLAGS = {"--max-update", "--total-num-update", "--mask-prob", "--ext-state-num", "--repeat-times"}
NOT_IN_FLAGS |= {"--k", "--p", "--updates", "--gpus", "--cpu"}  # options of the training scripts
NOT_IN_FLAGS |= {"--task", "--criterion", "--arch", "--seed", "--save-dir", "--restore-file", "--user-dir"}
NOT_IN_FLAGS |= {"--print", "--help"}
# Names of folders in OUTPUT: study/NAME/lr-{best,default}
STUDY, BEST, DEFAULT = "study", "best", "default"
PROBE_P = 0.15
GLUE_TASKS = ("MNLI", "QNLI", "QQP", "RTE")  # tasks of the paper's study, of GLUE's eight
MOLECULES = {one.table for one in BENCHMARKS.values() if one.reads_smiles}  # tables of theirs
ABOUT = tomllib.loads((WORKFLOW / "targets.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Run:
    """A row of runs.csv; with ``lr`` and ``seed`` one pre-training of it."""

    name: str
    targets: tuple[str, ...] = ()
    label: str = ""
    model: str = "exlm"
    k: int = 4
    p: float = 0.15
    times: float = 1.0
    size: str = ""  # size in a reproduction of the paper, if it is not the study's
    lr: str = DEFAULT  # one to try, BEST or DEFAULT
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

    def as_json(self) -> str:
        """Returns the row as JSON, for train.json."""
        return json.dumps({**asdict(self), "own_p": self.own_p})


@dataclass(frozen=True)
class Target:
    """A figure or table, as targets.toml has it."""

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
    def of_benchmarks(self) -> bool:
        """Returns whether it is of fine-tuned models, or of what they are fine-tuned on."""
        return any(self.name in (one.table, one.sets_table) for one in BENCHMARKS.values())


@cache
def targets() -> dict[str, Target]:
    """Returns the figures and tables by name."""
    table = pd.read_csv(WORKFLOW / "runs.csv", keep_default_na=False, converters={"targets": str.split})
    table["times"] = pd.to_numeric(table["times"]).fillna(1.0)
    runs = [Run(**{**row, "targets": tuple(row["targets"])}) for row in table.to_dict("records")]
    return {
        name: Target(name, runs=tuple(run for run in runs if name in run.targets), **_about(name))
        for name in ABOUT["targets"]
    }


def _about(name: str) -> dict:
    """Returns what targets.toml says of a target, and of the one that it is like."""
    about = dict(ABOUT["targets"][name])
    return {**_about(about.pop("like")), **about} if "like" in about else about
