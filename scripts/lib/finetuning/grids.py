"""Hyper-parameters of fine-tuning on text (tables 6 and 11), in configs/finetune/."""

import itertools
from dataclasses import dataclass, replace

from lib.command_line import Flags
from lib.files import CONFIGS

GRIDS = ("table11", "table6")
# A hyper-parameter -> the flag of finetune_*.sh
FLAGS = {"lr": "--lr", "batch": "--batch-size", "epochs": "--max-epoch", "warmup": "--warmup-ratio"}


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
        return Flags({flag: (getattr(self, name),) for name, flag in FLAGS.items()})


def points_of(task: str, grid: str = "table11", only: dict[str, str] | None = None) -> list[Point]:
    """Returns the points of a task's grid, the last flag's values changing fastest.

    Args:
        task: one whose name, in lower case and without hyphens, a file configs/finetune/table11-* has.
        grid: of GRIDS; ``table6`` is a single point.
        only: name of a hyper-parameter -> value; other points are left out. A value that the grid does not
            have is taken instead of the grid's.
    """
    path, name = CONFIGS / "finetune" / "table6.flags", task.lower().replace("-", "")
    if grid == "table11":
        [path] = (file for file in path.parent.glob("table11-*") if name in file.stem.split("-"))
    values = Flags.read(path)
    points = [Point(*point) for point in itertools.product(*(values[flag] for flag in FLAGS.values()))]
    for name, value in (only or {}).items():
        changed = list(dict.fromkeys(replace(point, **{name: value}) for point in points))
        points = [point for point in points if float(getattr(point, name)) == float(value)] or changed
    return points
