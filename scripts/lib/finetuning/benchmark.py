"""What the launcher, evaluate.py, the workflow and the report ask of a benchmark: a subclass in
benchmark.py of a folder beside this file, where lib/finetuning/benchmarks.py finds it."""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from lib.command_line import Flags
from lib.files import CONFIGS, write_result
from lib.finetuning.grids import Point, points_of
from lib.run.checkpoints import Pretrained
from lib.run.launch import Training

from fs_plugins.files import atomic
from fs_plugins.finetuning.scored import ScoredTask

Predictions = dict[str, tuple[np.ndarray, np.ndarray]]  # split -> ids [N], rows [N, ...]
RECIPES = CONFIGS / "finetune"
LONGEST = 512  # tokens that every model reads at least, however short the samples of its pre-training were


class Benchmark:
    """A kind of tasks to fine-tune on; this one is of a task of one's own, which evaluate.py scores."""

    # Of the scripts:
    name = ""  # NAME of prepare_NAME.py, finetune_NAME.sh and the workflow's setting of its data
    title = "a task"  # object of "Fine-tunes a model on"
    task: type[ScoredTask] = ScoredTask  # fairseq's task
    argument: tuple[str, str] | None = None  # finetune_NAME.sh's before CHECKPOINT, and what it is
    several_gpus = False  # whether it trains faster on several
    # Of the workflow:
    needs = ""  # its setting, for messages
    table = ""  # table of its results, the paper's or one of its own
    seeds: tuple[int, ...] = (1, 2, 3)  # seeds of fine-tuning
    point = "recipe"  # the name of its hyper-parameters, if there is no grid of them
    has_grid = False  # whether there is one, of table 6 or 11
    epoch = 0  # tokens of an epoch, about
    untrained: tuple[str, ...] = ()  # models that are not pre-trained
    baselines: dict[str, str] = {}  # other predictors -> the script that trains them
    sets_table = ""  # the paper's, about its data
    keeps_checkpoints = True
    # Of the report:
    titles: dict[str, str] = {}  # task -> its name there
    tables: dict[str, str] = {}  # besides ``table`` -> what each shows
    not_averaged: tuple[str, ...] = ()  # columns of ``table`` that its MEAN leaves out

    def add_options(self, add: Callable) -> None:
        """Adds finetune_NAME.sh's options, by ``add_argument``, besides those of all."""

    def resolve(self, args: argparse.Namespace, pretrained: Pretrained) -> tuple[Training, int]:
        """Returns the training, whose --batch-size is that of an update and whose --warmup-ratio becomes
        updates, and its examples; sets ``args.task``, its name."""
        raise NotImplementedError

    def write(self, args: argparse.Namespace, task: ScoredTask, outputs: Predictions, model: str) -> str:
        """Writes what evaluate.py, called with ``args``, predicted by a model of that architecture: files
        and, last, the result. Returns the scores in words.

        Here SPLIT.tsv has the outputs of each row.
        """
        scores = {}
        for split, (ids, rows) in outputs.items():
            table = pd.DataFrame(rows.reshape(len(ids), -1), index=pd.Index(ids, name="index"))
            with atomic(args.output / f"{split}.tsv") as file:
                table.to_csv(file, sep="\t")
            scores[split] = task.score(split, ids, rows)
        name = task.cfg._name
        write_result(args.output, self.name, name, task.metric, scores, args.checkpoint.parent)
        return "\n".join(f"{split}: {metrics}" for split, metrics in scores.items())

    def add_settings(self, add: Callable) -> None:
        """Adds the workflow's settings, by ``add_argument``: its data, ``--NAME``, and others."""
        add(f"--{self.name}")

    def data(self, settings: argparse.Namespace) -> dict[str, str]:
        """Returns the tasks that could be trained -> DATA of finetune_NAME.sh; none if no data are given."""
        folder = getattr(settings, self.name, None)
        return {self.name: folder} if folder else {}

    def tasks(self, settings: argparse.Namespace) -> list[str]:
        """Returns the tasks that are asked for."""
        return list(self.data(settings))

    def parts(self, settings: argparse.Namespace) -> dict[str, str | Path]:
        """Returns folders of data by their names, "" for a single one."""
        folders = dict.fromkeys(self.data(settings).values())
        return dict.fromkeys([""], *folders) if folders else {}

    def dictionaries(self, settings: argparse.Namespace) -> list[Path]:
        """Returns where the dict.txt of the data is, or will be."""
        return [Path(folder, "dict.txt") for folder in self.parts(settings).values()]

    def points(self, task: str, settings: argparse.Namespace) -> list[Point]:
        """Returns the hyper-parameters to try; none if those of :meth:`recipe` are taken."""
        return points_of(task, settings.grid, settings.point) if self.has_grid else []

    def recipe(self, task: str) -> Flags:
        """Returns the hyper-parameters in configs/finetune/."""
        return Flags.read(RECIPES / f"{self.name}.flags")

    def options(self, settings: argparse.Namespace, model: str, task: str) -> list[str]:
        """Returns the options of finetune_NAME.sh for a model of the workflow."""
        return []

    def tokens(self, task: str) -> int:
        """Returns the tokens of an epoch of a task, about."""
        return self.epoch

    def columns(self, content: dict) -> dict:
        """Returns the columns of a result.json in the report: ``table``, numbers under their heads, and what
        of lib/report/finetunings.py's COLUMNS is not by default."""
        metrics = content["metrics"]
        score = metrics.get("test", metrics.get("valid", {})).get(content["metric"])
        return {"table": self.table, self.titles.get(content["task"], content["task"]): score}


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


def tried_point(content: dict) -> dict:
    """Returns the columns of a result of one point of a grid."""
    point = Point(**{key: str(value) for key, value in content["manifest"]["settings"]["point"].items()})
    return {"point": point.key, "score": float(content["metrics"]["valid"][content["metric"]])}
