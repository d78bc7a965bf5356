"""The tables in scripts/workflow/: pre-trainings (:class:`Run`), and the paper's figures and tables that need
them (:class:`Target`).

The vanilla MLM of the paper's study is Repeated MLM with k = 1, which gives the batches and the loss of
fairseq's ``masked_lm`` exactly, and logs the corrupted proportion besides.
"""

from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import pandas as pd
from lib.files import ROOT

WORKFLOW = ROOT / "scripts" / "workflow"
STUDY = "study"  # study/NAME/seed-N
UNTRAINED, FOREST = "untrained", "forest"  # models of table 1 besides
PROBE_P = 0.15
MOLECULES, TEXT, SETS = "table1", "table3", "table9"  # fine-tunings of molecules, of text; MoleculeNet's sets
GLUE_TASKS = ("MNLI", "QNLI", "QQP", "RTE")  # tasks of the paper's study, of GLUE's eight


@dataclass(frozen=True)
class Run:
    """A row of runs.csv; with ``seed`` one pre-training of it."""

    name: str  # of its folder
    targets: list[str]  # the figures and tables that need it
    label: str  # in the report, without its p
    model: str  # of configs/model/
    k: int
    p: float
    times: float  # as many updates as the others
    size: str  # of configs/pretrain/ in a reproduction of the paper, if it is not ``paper``
    seed: int = 1

    @property
    def folder(self) -> Path:
        """Returns the folder of a pre-training, in OUTPUT."""
        return Path(STUDY, self.name, f"seed-{self.seed}")

    @classmethod
    def at(cls, folder: Path) -> "Run":
        """Returns the pre-training in a folder, the inverse of ``folder``."""
        name, seed = folder.parts[-2:]
        return replace(runs()[name], seed=int(seed.removeprefix("seed-")))

    @property
    def own_p(self) -> float:
        """Returns the p at which it is measured: its training's; the probe's if tokens were repeated."""
        return self.p if self.k == 1 or self.model != "repeated-mlm" else PROBE_P

    @property
    def corpus(self) -> str:
        """Returns on what it is trained: text, or SMILES to be fine-tuned on molecules."""
        return "smiles" if MOLECULES in self.targets else "text"


@dataclass(frozen=True)
class Target:
    """A row of targets.csv: a figure or table."""

    name: str
    title: str
    measures: list[str]  # measures of its runs
    numbers: list[str]  # rows of numbers.csv that the report shows
    without_glue: list[str]  # those shown instead if nothing is fine-tuned
    picture: str  # ``grid``, ``lines`` or ``curves``, if it is a figure; of an example, the name of its PNG
    note: str

    @property
    def runs(self) -> list[Run]:
        return [run for run in runs().values() if self.name in run.targets]

    @property
    def tasks(self) -> list[str]:
        """Returns the tasks of GLUE whose accuracies are among the numbers."""
        return [task for task in GLUE_TASKS if {task, f"{task}-m"} & {*self.numbers}]

    @property
    def of_study(self) -> bool:
        """Returns whether it is of the study of [MASK], not of tables of fine-tunings or of their data."""
        return self.name not in (MOLECULES, TEXT, SETS)


def _read(name: str, *lists: str) -> list[dict]:
    path, split = WORKFLOW / f"{name}.csv", dict.fromkeys(lists, str.split)
    return pd.read_csv(path, keep_default_na=False, converters=split).to_dict("records")


@cache
def runs() -> dict[str, Run]:
    """Returns the rows of runs.csv by name."""
    return {
        row["name"]: Run(**{**row, "times": float(row["times"] or 1)}) for row in _read("runs", "targets")
    }


@cache
def targets() -> dict[str, Target]:
    """Returns the rows of targets.csv by name."""
    return {row["name"]: Target(**row) for row in _read("targets", "measures", "numbers", "without_glue")}
