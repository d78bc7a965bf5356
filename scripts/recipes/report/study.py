"""What a study's folder holds, as numbers by run: means and spreads over seeds.

study.json                          size, data, glue, seeds and targets, as the workflow was asked for them
study/KEY/made_of.json, train.json  the record and the outcome of a pre-training; metrics.jsonl: its curve
study/KEY/entropy.json, probe.json  measurements; glue/TASK/seed-N/result.json: fine-tunings by table 6
rates/NAME.json                     the best learning rate of a row, and the seed that chose it
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from recipes.glue.tasks import TASKS
from recipes.report.reader import Reader
from recipes.study.grids import GLUE_TASKS, PROBE_RATIO, Run
from recipes.tables import Value, over_seeds

TRAIN, ENTROPY, PROBE = "train.json", "entropy.json", "probe.json"
LENGTH_FLAG = "--tokens-per-sample"


MODELS = {  # of the study, by name
    "exlm": "ExLM",
    "exlm-no-transitions": "w/o transitions",
    "exlm-1d-rope": "w/o 2D RoPE",
    "exlm-sparse": "sparse ExLM",
    "repeated-mlm": "Repeated MLM",
}


def label(run: Run) -> str:
    """What a reader calls a run, without its p, rate and seed: such as "ExLM, k = 4, penalty 2"."""
    if run.model == "repeated-mlm" and run.k == 1:
        return {1: "MLM", 2: "MLM++"}.get(run.schedule, f"MLM, {run.schedule:g} times the updates")
    longer = f", {run.schedule:g} times the updates" if run.schedule != 1 else ""
    shared = f", expanded after {run.shared_layers:.0%} of the layers" if run.shared_layers else ""
    penalty = f", penalty {run.penalty:g}" if run.penalty else ""
    return f"{MODELS.get(run.model, run.model)}, k = {run.k}{longer}{shared}{penalty}"


@dataclass(frozen=True)
class Measure:
    """A number of each run.

    Attributes:
        title: with the unit.
        file: that it comes from, in the run's folder.
        pick: the number of the file's content, by the run; None if it has none.
        digits: shown.
    """

    title: str
    file: str
    pick: Callable[[dict, Run], float | None]
    digits: int = 1


@dataclass(frozen=True)
class Choice:
    """A row's learning rate, the seed that chose it, and bits a masked token by rate."""

    lr: float
    seed: int
    bits: dict[float, float]

    @classmethod
    def parse(cls, content: dict) -> Choice:
        bits = {float(lr): float(value) for lr, value in content["bits"].items()}
        return cls(float(content["lr"]), int(content["seed"]), bits)


@dataclass(frozen=True)
class Training:
    """The outcome of a pre-training.

    Attributes:
        seconds: in training steps, None if the log does not tell.
        wall, cpu: seconds of the whole command.
        corrupted: share of tokens whose copies were all masked, and of how many tokens; Repeated MLM only.
        tokens_per_sample: before repetition.
    """

    seconds: float | None
    wall: float
    cpu: float
    machine: str
    corrupted: tuple[float, int] | None
    tokens_per_sample: int | None

    @classmethod
    def parse(cls, content: dict) -> Training:
        command = content.get("fairseq_train") or []
        lengths = [after for word, after in zip(command, command[1:], strict=False) if word == LENGTH_FLAG]
        measured = content.get("corrupted")
        return cls(
            content["training_seconds"],
            content.get("wall_seconds") or 0.0,
            content.get("cpu_seconds") or 0.0,
            str(content.get("machine") or ""),
            (float(measured["proportion"]), int(measured["tokens"])) if measured else None,
            int(lengths[-1]) if lengths else None,
        )


class Study:
    """The results of the pre-trainings in OUTPUT/study.

    A row is all runs of one name. If its learning rate is chosen, only runs with that rate count, and not
    those of the seed that chose it; while it is to be chosen, none.

    Attributes:
        settings: of study.json; empty if it does not exist.
        begun: the folder of each run that was begun, whether it counts or not.
        rates: row -> the choice of its learning rate.
        undecided: rows whose learning rate is not chosen yet.
    """

    def __init__(self, output: Path, reader: Reader):
        self.output, self.reader = output, reader
        self.settings = reader.read(output / "study.json") or {}
        self.begun: dict[Run, Path] = {}
        for folder in sorted(path for path in (output / "study").iterdir() if path.is_dir()):
            try:
                run = Run.of(folder.name)
            except ValueError as error:
                reader.note(f"{folder} is not used: {error}")
                continue
            self.begun[run] = folder
            reader.record(folder)
        self.rates: dict[Run, Choice] = {}
        self.undecided: set[Run] = set()
        self._folders: dict[Run, list[Path]] = {}
        for row in sorted({run.row for run in self.begun}):
            self._folders[row] = self._select(row)

    def _select(self, row: Run) -> list[Path]:
        """The folders that count, by seed."""
        runs = sorted(run for run in self.begun if run.row == row)
        path = self.output / "rates" / f"{row.name}.json"
        chosen = self.reader.read(path, Choice.parse)
        if chosen is None and any(run.lr for run in runs):
            self.undecided.add(row)
            return []
        if chosen is None:
            return [self.begun[run] for run in runs]
        self.rates[row] = chosen
        if not all(run.lr for run in runs):
            self.reader.note(f"{row.name}: runs at the size's own learning rate are not used beside {path}")
        return [self.begun[run] for run in runs if run.lr == chosen.lr and run.seed != chosen.seed]

    @property
    def seeds(self) -> list[int]:
        """Of all pre-trainings that were begun."""
        return sorted({run.seed for run in self.begun})

    def folders(self, run: Run) -> list[Path]:
        """Of each seed of a row that counts."""
        return self._folders.get(run, [])

    def expected(self, run: Run) -> int:
        """How many seeds a row should have: those begun; at a chosen rate, all others that were asked for."""
        found = len(self.folders(run))
        if run not in self.rates:
            return found
        return max(found, len(set(self.settings.get("seeds") or ()) - {self.rates[run].seed}))

    def numbers(self, run: Run, file: str, pick: Callable[[dict], float | None]) -> list[float | None]:
        """What a file of each seed says; None where there is none."""
        return [self.reader.read(folder / file, pick) for folder in self.folders(run)]

    def value(self, run: Run, measure: Measure) -> Value | None:
        """A row's measure over seeds."""
        found = self.numbers(run, measure.file, lambda content: measure.pick(content, run))
        return over_seeds(found, self.expected(run))

    def cell(self, run: Run, measure: Measure) -> str:
        """A row's measure as text, or what is missing."""
        value = self.value(run, measure)
        return value.text(measure.digits) if value else self.missing(run, measure.file)

    def _over_seeds(self, run: Run, file: str, pick: Callable[[dict], float | None]) -> Value | None:
        return over_seeds(self.numbers(run, file, pick), self.expected(run))

    def trainings(self, run: Run) -> list[Training]:
        found = (self.reader.read(folder / TRAIN, Training.parse) for folder in self.folders(run))
        return [training for training in found if training]

    def seconds(self, run: Run) -> Value | None:
        found = (training.seconds for training in self.trainings(run))
        return over_seeds(found, self.expected(run))

    def corrupted(self, run: Run) -> tuple[Value, int] | None:
        """Percent of the tokens whose copies were all masked, and of how many tokens."""
        found = [training.corrupted for training in self.trainings(run) if training.corrupted]
        value = over_seeds((100 * share for share, _ in found), len(self.folders(run)))
        return (value, sum(tokens for _, tokens in found)) if value else None

    def tokens_per_sample(self, run: Run) -> int | None:
        return next((t.tokens_per_sample for t in self.trainings(run) if t.tokens_per_sample), None)

    def entropy(self, run: Run, name: str = "entropy") -> Value | None:
        """Bits: ``entropy`` (the mean over states), or ``entropy_posterior``."""
        return self._over_seeds(run, ENTROPY, lambda result: (result[name] or {}).get("mean"))

    def probe(self, run: Run, ratio: float = PROBE_RATIO, name: str = "accuracy") -> Value | None:
        """Recovery of masked tokens: ``accuracy`` in percent, or ``bits``."""
        scale = 100 if name == "accuracy" else 1

        def pick(result: dict) -> float | None:
            return next((scale * r[name] for r in result["results"] if r["mask_prob"] == ratio), None)

        return self._over_seeds(run, PROBE, pick)

    def glue(self, run: Run, task: str) -> Value | None:
        """Accuracy in percent over pre-training and fine-tuning seeds, of each fine-tuning's best epoch.

        ``MNLI`` is the mean of matched and mismatched, ``MNLI-m`` and ``MNLI-mm`` each of them, ``Avg`` the
        mean over the four tasks of each task's mean, if all are there.
        """
        if task == "Avg":
            means = [self.glue(run, name) for name in GLUE_TASKS]
            if not all(means):
                return None
            if len({(len(value.numbers), value.expected) for value in means}) == 1:  # each seed has all four
                per_seed = zip(*(value.numbers for value in means), strict=True)
                return over_seeds(map(statistics.fmean, per_seed), means[0].expected)
            return over_seeds([statistics.fmean(value.centre for value in means)])
        name, _, half = task.partition("-")
        splits = {"m": ("valid",), "mm": ("valid1",)}.get(half, TASKS[name].valid_splits)

        def pick(result: dict) -> float:
            return statistics.fmean(100 * result["scores"][split]["accuracy"] for split in splits)

        begun = [sorted(folder.glob(f"glue/{name}/seed-*")) for folder in self.folders(run)]
        scores = (self.reader.read(path / "result.json", pick) for paths in begun for path in paths)
        return over_seeds(scores, len(begun) * max(map(len, begun), default=0))

    def has_glue(self) -> bool:
        """Whether the study fine-tunes; otherwise its quality is the probe's."""
        return bool(self.settings.get("glue")) or any((self.output / "study").glob("*/glue/*/seed-*"))

    def curve(self, run: Run) -> list[dict]:
        """The training records of a run's metrics.jsonl, of its first seed that has some."""
        for folder in self.folders(run):
            path = folder / "metrics.jsonl"
            if not path.is_file():
                continue
            try:
                records = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
                if found := [record for record in records if record["kind"] == "train"]:
                    return found
            except (OSError, ValueError, KeyError, TypeError) as error:
                self.reader.damaged.add(path)
                self.reader.note(f"{path} is damaged: {error}")
        return []

    def missing(self, run: Run, *files: str) -> str:
        """What stands in a cell that has no number.

        Args:
            files: that the number would have come from, or patterns of them.
        """
        folders = self.folders(run)
        if run in self.undecided:
            return "rate not chosen"
        if not folders:
            return "not run"
        needed = {path for folder in folders for name in (TRAIN, *files) for path in folder.glob(name)}
        if needed & self.reader.damaged:
            return "damaged"
        trained = any((folder / TRAIN).exists() for folder in folders)
        return "not measured" if trained else "unfinished"
