"""The pre-trainings of figures and tables: scripts/workflow/runs.csv, a row each.

Its columns: ``name`` (of the run's folder), ``targets`` (the figures and tables that need it), ``label``
(without its p), ``model`` (of configs/model/), ``k``, ``p``; ``times`` (as many updates as the others; 1 if
empty) and ``size`` (of configs/pretrain/, in place of ``paper``), which may be empty. targets.toml has each
target's title, what is measured of its runs and what is shown.

The vanilla MLM of the paper's study is Repeated MLM with k = 1, which gives the batches and the loss of
fairseq's ``masked_lm`` exactly, and logs the corrupted proportion besides.
"""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path

import pandas as pd
from lib.files import CONFIGS

WORKFLOW = CONFIGS.parent / "scripts" / "workflow"
STUDY, BEST, DEFAULT = "study", "best", "default"  # study/NAME/lr-{RATE,best,default}/seed-N
PROBE_P = 0.15
MOLECULES, TEXT, SETS = (
    "table1",
    "table3",
    "table9",
)  # fine-tunings of molecules and of text; MoleculeNet's sets
GLUE_TASKS = ("MNLI", "QNLI", "QQP", "RTE")  # tasks of the paper's study, of GLUE's eight
ABOUT = tomllib.loads((WORKFLOW / "targets.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Run:
    """A row of runs.csv; with ``lr`` and ``seed`` one pre-training of it."""

    name: str
    targets: tuple[str, ...]
    label: str
    model: str
    k: int
    p: float
    times: float
    size: str  # size in a reproduction of the paper, if it is not the study's
    lr: str = DEFAULT  # one to try, BEST or DEFAULT
    seed: int = 1

    @property
    def folder(self) -> Path:
        """Returns the folder of a pre-training, in OUTPUT."""
        return Path(STUDY, self.name, f"lr-{self.lr}", f"seed-{self.seed}")

    @classmethod
    def at(cls, folder: str | Path) -> "Run":
        """Returns the pre-training in a folder, the inverse of ``folder``."""
        name, lr, seed = Path(folder).parts[-3:]
        return replace(runs()[name], lr=lr.removeprefix("lr-"), seed=int(seed.removeprefix("seed-")))

    @property
    def own_p(self) -> float:
        """Returns the p at which it is measured: that of its training; the probe's if tokens were
        repeated."""
        return self.p if self.k == 1 or self.model != "repeated-mlm" else PROBE_P

    @property
    def of_molecules(self) -> bool:
        """Returns whether it is trained on ``smiles``, to be fine-tuned on molecules."""
        return MOLECULES in self.targets


@dataclass(frozen=True)
class Target:
    """A figure or table, as targets.toml has it."""

    name: str
    title: str
    measures: Sequence[str] = ()  # measures of its runs
    numbers: Sequence[str] = ()  # numbers in the report; ``without_glue``: those shown instead
    without_glue: Sequence[str] = ()
    # ``grid``, ``lines`` or ``curves``, if it is a figure; of an example, the name of its PNG
    picture: str = ""
    note: str = ""

    @property
    def runs(self) -> list[Run]:
        """Returns the rows of runs.csv that it needs."""
        return [run for run in runs().values() if self.name in run.targets]

    @property
    def tasks(self) -> list[str]:
        """Returns the tasks of GLUE whose accuracies are among the numbers."""
        return [task for task in GLUE_TASKS if {task, f"{task}-m"} & {*self.numbers}]

    @property
    def of_study(self) -> bool:
        """Returns whether it is of the study of [MASK], not of fine-tunings or of their data."""
        return self.name not in (MOLECULES, TEXT, SETS)


@cache
def runs() -> dict[str, Run]:
    """Returns the rows of runs.csv by name."""
    table = pd.read_csv(WORKFLOW / "runs.csv", keep_default_na=False, converters={"targets": str.split})
    table["times"] = pd.to_numeric(table["times"]).fillna(1.0)
    rows = table[[field.name for field in fields(Run)[:8]]].to_dict("records")
    return {row["name"]: Run(**{**row, "targets": tuple(row["targets"])}) for row in rows}


@cache
def targets() -> dict[str, Target]:
    """Returns the figures and tables by name; one is ``like`` another but for what it says itself."""
    found: dict[str, dict] = {}
    for name, about in ABOUT["targets"].items():
        found[name] = {**found.get(about.pop("like", ""), {}), **about}
    return {name: Target(name, **about) for name, about in found.items()}
