"""The settings of the workflow: Snakemake's config (--config, --configfile), checked."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TypeVar

from lib.command_line import UserError, count, positive, seeds
from lib.flags import Flags
from lib.folders import CONFIGS
from lib.glue.grids import GRIDS
from lib.glue.tasks import TASKS, task_named
from lib.study.runs import GLUE_TASKS, Experiment, Run, experiments

BASELINES = ("forest", "dmpnn")  # of table 1
SENTENCES = {"smoke": 500, "small": 2000, "paper": 5000}  # by size, see Settings
SIZES = tuple(SENTENCES)
# What makes a run of the study that run, or has a setting of its own
NOT_IN_FLAGS = {"--max-update", "--total-num-update", "--mask-prob", "--ext-state-num", "--repeat-times"}
NOT_IN_FLAGS |= {"--k", "--p", "--updates", "--recipe", "--gpus", "--cpu"}  # options of the pages
NOT_IN_FLAGS |= {"--task", "--criterion", "--arch", "--seed", "--save-dir", "--restore-file", "--user-dir"}
PREPARED = "data-bin"  # in OUTPUT: the quickstart's corpus
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """What is asked of the workflow. Paths are as given, relative to the working directory.

    Attributes:
        output: the folder of all results.
        size: of the study's models, of SIZES.
        data: the pre-training's; of size smoke by default the quickstart's corpus.
        glue, squad: what prepare_glue.py and prepare_squad.py made.
        moleculenet: set -> what prepare_moleculenet.py made.
        models: name -> pre-trained checkpoint, of tables 1 and 3.
        init_from: name -> checkpoint fine-tuned on MNLI, from which its RTE, MRPC and STS-B start.
        baselines: of table 1: forest (random forest), dmpnn (D-MPNN; needs chemprop).
        tasks: of GLUE, for table 3.
        seeds: of pre-training.
        rates: learning rates to try; the first seed chooses each run's best, the others are reported.
        finetune_seeds: of fine-tuning.
        grid: of GLUE's hyper-parameters, for table 3.
        only: fixes columns of the tables of runs, or of table 3's grid.
        runs_table: one more table of runs, beside scripts/workflow/runs.csv.
        updates: of a pre-training, instead of the size's.
        max_epoch: of a fine-tuning of tables 1 and 3's SQuAD, instead of the paper's.
        flags: more of fairseq-train's flags: of the study for every pre-training, else for every fine-tuning.
        gpus: of each training; 0: the CPU.
        jobs_per_gpu: that may share a GPU.
        threads: of each training on the CPU.
        sentences: of the validation set, that entropy, probe and joint likelihood are measured on.
    """

    output: Path
    size: str = "smoke"
    data: Path | None = None
    glue: Path | None = None
    squad: Path | None = None
    moleculenet: dict[str, Path] = field(default_factory=dict)
    models: dict[str, Path] = field(default_factory=dict)
    init_from: dict[str, Path] = field(default_factory=dict)
    baselines: tuple[str, ...] = ("forest",)
    tasks: tuple[str, ...] = ()
    seeds: tuple[int, ...] = (1,)
    rates: tuple[float, ...] = ()
    finetune_seeds: tuple[int, ...] | None = None
    grid: str = "table11"
    only: dict[str, str] = field(default_factory=dict)
    runs_table: Path | None = None
    updates: int | None = None
    max_epoch: int | None = None
    flags: str = ""
    gpus: int = 0
    jobs_per_gpu: int = 1
    threads: int = 1
    sentences: int = SENTENCES["smoke"]

    @classmethod
    def of(cls, config: dict) -> Settings:
        """Of Snakemake's config.

        Raises:
            UserError: for an unknown setting, or a value that cannot be.
        """
        known = {each.name for each in fields(cls)}
        if unknown := sorted(config.keys() - known):
            raise UserError(f"unknown setting {unknown[0]}: choose from {', '.join(sorted(known))}")
        if not config.get("output"):
            raise UserError("give the folder for the results: --config output=runs/NAME ...")
        readers: dict[str, Callable] = {
            **dict.fromkeys(("output", "data", "glue", "squad", "runs_table"), _path),
            **dict.fromkeys(("seeds", "finetune_seeds"), _argument(seeds)),
            **dict.fromkeys(("updates", "max_epoch", "jobs_per_gpu", "threads"), _argument(positive)),
            **dict.fromkeys(("moleculenet", "models", "init_from"), _paths),
            **{"gpus": _argument(count), "sentences": _argument(positive)},
            **{"tasks": _tasks, "only": _filters, "flags": _flags, "rates": _rates},
            **{"size": _one_of(SIZES), "grid": _one_of(GRIDS), "baselines": _baselines},
        }
        values = {name: readers[name](name, value) for name, value in config.items() if value is not None}
        values.setdefault("sentences", SENTENCES[values.get("size", cls.size)])
        settings = cls(**values)
        if settings.rates and len(settings.seeds) < 2:
            raise UserError(
                "rates: the first of seeds chooses each model's learning rate, and the others are reported: "
                "give two seeds or more, such as seeds=1,2,3,4"
            )
        if unknown := settings.init_from.keys() - settings.models.keys():
            raise UserError(f"init_from {sorted(unknown)[0]} is none of models: {', '.join(settings.models)}")
        if ":" in str(settings.output.absolute()):
            raise UserError(f"output {settings.output}: fairseq takes a folder without ':' in its name")
        return settings

    def job(self, gpus: int) -> str:
        """What comes before the command of a job on so many GPUs."""
        sharing = f" --jobs-per-gpu {self.jobs_per_gpu}" if gpus and self.jobs_per_gpu > 1 else ""
        return f"python -m lib.on_gpu --gpus {gpus}{sharing}"

    def of_finetuning(self, default: tuple[int, ...]) -> tuple[int, ...]:
        """The seeds of fine-tuning."""
        return self.finetune_seeds or default

    def pretraining_data(self) -> Path:
        """The data of the study; made by the workflow if none are given.

        Raises:
            UserError: if they are needed, or lack a file.
        """
        if self.data is None:
            if self.size != "smoke":
                raise UserError(f"size={self.size} needs data=FOLDER, made by scripts/prepare_text.py")
            return self.output / PREPARED
        if not self.data.is_dir():
            raise UserError(f"data={self.data} does not exist")
        for name in ("dict.txt", "train.bin", "valid.bin"):
            if not (self.data / name).exists():
                raise UserError(
                    f"data={self.data} has no {name}: give a folder made by scripts/prepare_text.py or "
                    "fairseq-preprocess --only-source, with a training and a validation set"
                )
        return self.data

    @property
    def experiments(self) -> dict[str, Experiment]:
        """The targets of the tables of runs."""
        return experiments(self.runs_table)

    @property
    def runs(self) -> dict[str, Run]:
        """name -> row of the tables of runs."""
        return {run.name: run for one in self.experiments.values() for run in one.runs}

    def options_of(self, run: Run) -> list[str]:
        """pretrain_text.sh's options of a run, besides model and folder: those of its row come last."""
        k = [] if run.model == "mlm" else ["--k", str(run.k)]
        words = [*k, "--p", f"{run.p:g}", "--seed", str(run.seed)]
        if updates := self._updates_of(run.times):
            words += ["--updates", str(updates)]
        words += shlex.split(self.flags)
        words += ["--lr", f"{run.lr:g}"] if run.lr else []
        return [*words, *run.flags]

    def _updates_of(self, times: float) -> int | None:
        """Of a pre-training; None if they are the size's."""
        if times == 1 or self.updates:
            return self.updates and round(times * self.updates)
        flags = Flags.read(CONFIGS / "pretrain" / "table5.flags")
        flags |= Flags.read(CONFIGS / "size" / f"{self.size}.flags")
        return round(times * Flags(flags).whole("--max-update"))

    def check_flags(self) -> None:
        """Raises UserError if ``flags`` has one that makes a run of the study that run."""
        of_runs = NOT_IN_FLAGS | ({"--lr"} if self.rates else set())
        of_runs |= {word for run in self.runs.values() for word in run.flags if word.startswith("--")}
        if taken := of_runs & Flags.of(shlex.split(self.flags)).keys():
            raise UserError(
                f"flags: {', '.join(sorted(taken))} would apply to runs that differ in it; use the settings "
                "updates, only, seeds, rates and gpus"
            )

    def check_glue(self) -> None:
        """Raises UserError unless the study's GLUE tasks are complete and have ``data``'s dictionary."""
        if self.glue is None:
            return
        if self.data is None:
            raise UserError("glue=FOLDER needs data=FOLDER, the pre-training's data with the same dictionary")
        for task in GLUE_TASKS:
            inputs = self.glue / f"{task}-bin" / "input0"
            dictionary = inputs / "dict.txt"
            for path in (dictionary, *(inputs / f"{s}.idx" for s in ("train", *TASKS[task].valid_splits))):
                if not path.exists():
                    raise UserError(f"{path} does not exist: prepare {task} with scripts/prepare_glue.py")
            if dictionary.read_bytes() != (self.data / "dict.txt").read_bytes():
                raise UserError(
                    f"{dictionary} differs from that of {self.data}: prepare GLUE with "
                    f"scripts/prepare_glue.py --data {self.data}"
                )


def _path(name: str, value) -> Path:
    return Path(str(value))


def _words(value) -> list[str]:
    """Of a list, or of words joined by commas."""
    return [
        str(word).strip() for word in (value if isinstance(value, (list, tuple)) else str(value).split(","))
    ]


def _argument(kind: Callable[[str], T]) -> Callable[[str, object], T]:
    """A reader by the type of a command line's argument."""

    def read(name: str, value) -> T:
        if isinstance(value, float) and value.is_integer():  # as Snakemake reads 1e3
            value = int(value)
        try:
            return kind(",".join(_words(value)))
        except argparse.ArgumentTypeError as error:
            raise UserError(f"{name}={error}") from None

    return read


def _rates(name: str, value) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in _words(value))
    except ValueError:
        found = ()
    if len(set(found)) < 2 or len(set(found)) < len(found) or min(found) <= 0:
        raise UserError(f"{name}={value}: give different learning rates, such as {name}=5e-4,1e-3,2e-3")
    return found


def _pairs(name: str, value, example: str) -> dict[str, str]:
    """Of a mapping, or of NAME=VALUE joined by commas."""
    if isinstance(value, dict):
        return {str(key): str(word) for key, word in value.items()}
    words = [word.partition("=")[::2] for word in _words(value)]
    pairs = dict(words)
    if len(pairs) < len(words):
        raise UserError(f"{name}={value}: a name is given twice; give each once")
    if not all(pairs) or not all(pairs.values()):
        raise UserError(f"{name}={value}: give names and values, such as {name}={example}")
    return pairs


def _filters(name: str, value) -> dict[str, str]:
    return _pairs(name, value, "k=4,p=0.15")


def _paths(name: str, value) -> dict[str, Path]:
    found = {key: Path(path) for key, path in _pairs(name, value, "NAME=PATH,NAME=PATH").items()}
    for key, path in found.items():
        if not all(letter.isalnum() or letter in "-_." for letter in key) or key.startswith("."):
            raise UserError(f"{name}: '{key}' is to name a folder: use letters, digits, '-', '_' and '.'")
        if not path.exists():
            raise UserError(f"{name}: {path} does not exist")
    return found


def _tasks(name: str, value) -> tuple[str, ...]:
    return tuple(task_named(word).name for word in _words(value))


def _baselines(name: str, value) -> tuple[str, ...]:
    found = tuple(_words(value))
    if unknown := set(found) - set(BASELINES):
        raise UserError(f"{name}: unknown {sorted(unknown)[0]}: choose from {', '.join(BASELINES)}")
    return found


def _flags(name: str, value) -> str:
    Flags.of(shlex.split(str(value)))  # is what they are
    return str(value)


def _one_of(choices: tuple[str, ...]) -> Callable[[str, object], str]:
    def read(name: str, value) -> str:
        if value not in choices:
            raise UserError(f"{name}={value}: choose one of {', '.join(choices)}")
        return str(value)

    return read
