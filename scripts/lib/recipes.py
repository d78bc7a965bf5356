"""Recipes of fine-tunings: what the modules of the benchmarks beside this file (glue, squad, moleculenet) say
of one, and the grids of tables 6 and 11.

Each module has ``add_options(add)``, ``recipe(args, pretrained)`` and, for evaluate.py, ``write(task,
outputs, args, model)``.
"""

import itertools
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import ModuleType

from lib.command_line import Flags
from lib.files import CONFIGS
from lib.run.checkpoints import Pretrained

RECIPES = CONFIGS / "finetune"
# fairseq's task -> the module of its benchmark
OF_TASK = {"glue": "glue", "squad2": "squad"}
OF_TASK |= {"molecule_property": "moleculenet"}
LONGEST = 512  # tokens that every model reads at least, however short the samples of its pre-training were
GRIDS = ("table11", "table6")
# A hyper-parameter -> the flag of finetune_*.sh
FLAGS = {"lr": "--lr", "batch": "--batch-size", "epochs": "--max-epoch", "warmup": "--warmup-ratio"}


@dataclass
class Recipe:
    """What a benchmark says of a fine-tuning."""

    data: Path  # DATA of fairseq-train
    flags: Flags  # the model's, the task's, the hyper-parameters, and the user's, which win
    rows: int  # training examples of an epoch
    metrics: tuple[str, ...]  # that validations log
    evaluation: list[str]  # options of evaluate.py
    settings: dict  # that may not differ when the run is resumed, besides the flags: ``task`` and others
    inputs: dict[str, list[Path]] = field(default_factory=dict)  # files that may not differ either
    note: str = ""  # to the user


def benchmark(name: str) -> ModuleType:
    """Returns the module of a benchmark, and imports no other."""
    return import_module(f"lib.{name}")


def files_of(model: Path) -> list[Path]:
    """Returns a checkpoint, or what decides in a folder for transformers."""
    return [model / "config.json", *sorted(model.glob("*.safetensors"))] if model.is_dir() else [model]


def repetition(pretrained: Pretrained) -> Flags:
    """Returns --repeat-times, of a Repeated MLM."""
    return Flags({"--repeat-times": (str(pretrained.repeat),)} if pretrained.repeat > 1 else {})


def positions(pretrained: Pretrained, least: int = LONGEST) -> Flags:
    """Returns --max-positions. Rotary positions have no weights: an MLM may have more than its pre-training
    had, else it would lose what an ExLM, whose positions count its states, gets to read."""
    own = pretrained.max_positions
    most = own if pretrained.expands else max(own, least * pretrained.repeat)
    return Flags({"--max-positions": (str(most),)})


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


def points_of(task: str, grid: str = "table11", epochs: int | None = None) -> list[Point]:
    """Returns the points of a task's grid, the last flag's values changing fastest.

    Args:
        task: one whose name, in lower case and without hyphens, a file configs/finetune/table11-* has.
        grid: of GRIDS; ``table6`` is a single point.
        epochs: are taken instead of the grid's.
    """
    path, name = RECIPES / "table6.flags", task.lower().replace("-", "")
    if grid == "table11":
        [path] = (file for file in RECIPES.glob("table11-*") if name in file.stem.split("-"))
    values = Flags.read(path) | ({FLAGS["epochs"]: (str(epochs),)} if epochs else {})
    return [Point(*point) for point in itertools.product(*(values[flag] for flag in FLAGS.values()))]
