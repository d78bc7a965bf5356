"""The grids of hyper-parameters in configs/finetune/*.grid (table 11), and the point of table 6."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

from recipes.glue.tasks import Task

CONFIGS = Path(__file__).resolve().parents[3] / "configs" / "finetune"
TABLE11 = {
    "table11-mnli-qnli-qqp-sst2": ("MNLI", "QNLI", "QQP", "SST-2"),
    "table11-rte-mrpc-cola-stsb": ("RTE", "MRPC", "CoLA", "STS-B"),
}
GRIDS = ("table11", "table6")
_NUMBER = re.compile(r"\d+(\.\d+)?(e-?\d+)?|\.\d+")


@dataclass(frozen=True)
class Point:
    """Hyper-parameters of a fine-tuning, as the grids write them."""

    lr: str
    batch: str
    epochs: str
    warmup: str

    @property
    def key(self) -> str:
        return f"lr{self.lr}-b{self.batch}-e{self.epochs}-w{self.warmup}"

    @property
    def options(self) -> list[str]:
        """Of finetune_glue.sh."""
        return [word for flag, name in FLAGS.items() for word in (flag, getattr(self, name))]

    def __str__(self) -> str:
        return f"lr={self.lr},batch={self.batch},epochs={self.epochs},warmup={self.warmup}"


FLAGS = {
    "--lr": "lr",
    "--batch-size": "batch",
    "--max-epoch": "epochs",
    "--warmup-ratio": "warmup",
}


def read_grid(path: Path) -> list[Point]:
    """The points of a .grid file, the last flag's values changing fastest.

    Raises:
        ValueError: for a line that is no flag and its values, or a flag that is missing or not known.
    """
    values: dict[str, list[str]] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        if words[0] not in FLAGS or len(words) < 2 or not all(_NUMBER.fullmatch(w) for w in words[1:]):
            raise ValueError(f"{path}, line {number}: {line!r} is not one of {', '.join(FLAGS)} and numbers")
        values[FLAGS[words[0]]] = words[1:]
    if missing := [flag for flag, name in FLAGS.items() if name not in values]:
        raise ValueError(f"{path} has no {' nor '.join(missing)}")
    names = list(FLAGS.values())
    return [
        Point(**dict(zip(names, found, strict=True)))
        for found in itertools.product(*(values[name] for name in names))
    ]


def _check_value(name: str, value: str) -> None:
    """Raises ValueError for what no fine-tuning can have."""
    if not _NUMBER.fullmatch(value):
        raise ValueError(f"{name}={value}: give a number")
    if name in ("batch", "epochs") and not (value.isdigit() and int(value) > 0):
        raise ValueError(f"{name}={value}: give a whole number, 1 or more")
    if name == "warmup" and float(value) >= 1:
        raise ValueError(f"{name}={value}: give a share of the updates, such as 0.06")
    if name == "lr" and float(value) == 0:
        raise ValueError(f"{name}={value}: give a number above 0")


def points_of(task: Task, grid: str = "table11", only: dict[str, str] | None = None) -> list[Point]:
    """The points of a task's grid.

    Args:
        grid: of GRIDS; ``table6`` is a single point.
        only: name of a hyper-parameter -> value; other points are left out. A value that the grid does not
            have is taken instead of the grid's.

    Raises:
        ValueError: for an unknown grid or name, or a value that cannot be.
    """
    if grid == "table6":
        points = read_grid(CONFIGS / "table6.flags")
    elif grid == "table11":
        [name] = [name for name, tasks in TABLE11.items() if task.name in tasks]
        points = read_grid(CONFIGS / f"{name}.grid")
    else:
        raise ValueError(f"unknown grid {grid!r}: there are {' and '.join(GRIDS)}")
    for name, value in (only or {}).items():
        if name not in FLAGS.values():
            raise ValueError(f"only={name}={value}: a fine-tuning has {', '.join(FLAGS.values())}")
        _check_value(name, value)
        kept = [point for point in points if float(getattr(point, name)) == float(value)]
        points = kept or list(dict.fromkeys(Point(**{**vars(point), name: value}) for point in points))
    return points
