"""The grids of hyper-parameters in configs/finetune/*.grid (table 11), and the point of table 6."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path

from lib.command_line import Flags, UserError
from lib.files import CONFIGS

TABLE11 = {
    "table11-mnli-qnli-qqp-sst2": ("MNLI", "QNLI", "QQP", "SST-2"),
    "table11-rte-mrpc-cola-stsb": ("RTE", "MRPC", "CoLA", "STS-B"),
    "table11-squad2": ("squad2",),
}
GRIDS = ("table11", "table6")


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
    def flags(self) -> Flags:
        """Of finetune_glue.sh and finetune_squad.sh."""
        return Flags({flag: (getattr(self, name),) for flag, name in FLAGS.items()})

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
        UserError: if it has other flags.
    """
    grid = Flags.read(path)
    if grid.keys() != FLAGS.keys() or not all(grid.values()):
        raise UserError(f"{path} has {grid}: give {', '.join(FLAGS)}, each with its values")
    return [Point(*values) for values in itertools.product(*(grid[flag] for flag in FLAGS))]


def points_of(task: str, grid: str = "table11", only: dict[str, str] | None = None) -> list[Point]:
    """The points of a task's grid.

    Args:
        grid: of GRIDS; ``table6`` is a single point.
        only: name of a hyper-parameter -> value; other points are left out. A value that the grid does not
            have is taken instead of the grid's.

    Raises:
        ValueError: for an unknown grid or name, or a value that cannot be.
    """
    if grid == "table6":
        points = read_grid(CONFIGS / "finetune" / "table6.flags")
    elif grid == "table11":
        [name] = [name for name, tasks in TABLE11.items() if task in tasks]
        points = read_grid(CONFIGS / "finetune" / f"{name}.grid")
    else:
        raise ValueError(f"unknown grid {grid!r}: there are {' and '.join(GRIDS)}")
    for name, value in (only or {}).items():
        if name not in FLAGS.values():
            raise ValueError(f"only={name}={value}: a fine-tuning has {', '.join(FLAGS.values())}")
        changed = list(dict.fromkeys(replace(point, **{name: value}) for point in points))
        points = [point for point in points if float(getattr(point, name)) == float(value)] or changed
    return points
