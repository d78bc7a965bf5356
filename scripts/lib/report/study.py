"""What a study's folder holds: values of runs over seeds, and why there are none.

settings.json           targets and seeds that the workflow was asked for, size, data
study/NAME/lr-RATE/seed-N/
    manifest.json, train.json   what a pre-training is made of, and its outcome; metrics.jsonl: its curve
    MEASURE.json                measurements; glue/TASK/table6/seed-N/result.json: fine-tunings
study/NAME/best.json    the best learning rate of a run, and the seed that chose it
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from lib.glue.tasks import TASKS
from lib.report import frame
from lib.study.results import SEEDS, STUDY
from lib.study.runs import GLUE_TASKS, PROBE_MASK_PROB, Run, Target, targets
from lib.tables import Value, over_seeds

OWN = "own"  # the mask probability that a model was trained with


@dataclass(frozen=True)
class Number:
    """A number of each run.

    Attributes:
        title: with the unit.
        measure: the file that it comes from.
        metric: its name there; of several checkpoints the last counts.
        digits: shown.
        scale: times the file's.
        mask_prob: that it was measured at, or OWN; None: any.
    """

    title: str
    measure: str
    metric: str
    digits: int = 1
    scale: float = 1
    mask_prob: float | str | None = None


class Study:
    """The results of the pre-trainings in OUTPUT/study.

    If learning rates were tried for a run, those pre-trainings count which use the best of them.

    Attributes:
        settings: of settings.json; empty if it does not exist.
        frame: of lib.report.frame.study, those that count.
        rates: run -> NAME/best.json.
    """

    def __init__(self, output: Path, problems: list[str]):
        self.output = output
        self.settings = frame.read(output / "settings.json", problems)
        table = self.settings.get("runs_table")
        self.targets: dict[str, Target] = targets(table and Path(table))
        known = {run.name for target in self.targets.values() for run in target.runs}
        self.rates = {
            name: frame.read(output / f"study/{name}/best.json", problems) for name in sorted(known)
        }
        self.all = frame.study(output, problems)
        tuned = set(self.all["name"][self.all["rate"] == "best"])
        wanted = self.all["name"].map(lambda name: "best" if name in tuned else "default")
        self.frame = self.all[self.all["rate"] == wanted]
        for name in sorted(set(self.all["name"]) - known):
            problems.append(f"{output / 'study' / name} is not used: {name} is in no table of runs")

    def folders(self, run: Run) -> list[Path]:
        """Of the finished pre-trainings of a run that count, by seed."""
        return list(dict.fromkeys(self.frame["folder"][self.frame["name"] == run.name]))

    def missing(self, run: Run) -> str:
        """What stands in a cell that has no number."""
        begun = {path.name for path in (self.output / STUDY / run.name).glob("lr-*")}
        if self.folders(run):
            return "not measured"
        if begun - {"lr-default"} and not self.rates[run.name]:
            return "rate not chosen"
        return "unfinished" if begun else "not run"

    def expected(self, run: Run, fine_tuned: bool = False) -> int:
        """Seeds that were asked for; 0 if that is not known."""
        seeds = set(self.settings.get("seeds", ())) - {self.rates[run.name].get("seed")}
        return len(seeds) * (len(self.settings.get("finetune_seeds") or SEEDS[STUDY]) if fine_tuned else 1)

    def rows(self, run: Run, number: Number) -> pd.DataFrame:
        """The rows of the frame with a number; of several checkpoints all."""
        found = self.frame[(self.frame["name"] == run.name) & (self.frame["measure"] == number.measure)]
        found = found[found["metric"] == number.metric]
        wanted = run.own_mask_prob if number.mask_prob == OWN else number.mask_prob
        found = found if wanted is None else found[found["mask_prob"] == wanted]
        return found.assign(value=found["value"] * number.scale)

    def value(self, run: Run, number: Number) -> Value | None:
        """Over seeds."""
        last = self.rows(run, number).sort_values("updates").groupby("seed").last()
        return over_seeds(last["value"], self.expected(run))

    def cell(self, run: Run, number: Number) -> str:
        """The value as text, or what is missing."""
        value = self.value(run, number)
        return value.text(number.digits) if value else self.missing(run)

    def glue(self, run: Run, task: str) -> Value | None:
        """Accuracy in percent over seeds of pre-training and fine-tuning, of each fine-tuning's best epoch.

        Args:
            task: ``MNLI`` is the mean of matched and mismatched, ``MNLI-m`` and ``MNLI-mm`` are each of them;
                ``Avg`` is the mean over the four tasks, of the seeds that have all.
        """
        name, _, half = task.partition("-")
        scores = []
        for one in GLUE_TASKS if name == "Avg" else (name,):
            splits = {"m": ("valid",), "mm": ("valid1",)}.get(half, TASKS[one].valid_splits)
            metrics = [f"metrics.{split}.accuracy" for split in splits]
            found = self.frame[(self.frame["name"] == run.name) & (self.frame["task"] == one)]
            found = found[found["metric"].isin(metrics)].groupby(["seed", "tuning_seed"])["value"]
            scores.append(100 * found.mean())
        return over_seeds(
            pd.concat(scores, axis=1).dropna().mean(axis=1), self.expected(run, fine_tuned=True)
        )

    def curve(self, run: Run) -> pd.DataFrame:
        """The training records of a run's metrics.jsonl, of its first seed that has some."""
        for path in (folder / "metrics.jsonl" for folder in self.folders(run)):
            lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
            if records := [one for one in map(json.loads, lines) if one["kind"] == "train"]:
                return pd.DataFrame(records)
        return pd.DataFrame(columns=["update"])

    @cached_property
    def has_glue(self) -> bool:
        """Whether the study fine-tunes; otherwise its quality is the probe's."""
        return bool(self.settings.get("glue")) or self.frame["task"].notna().any()


def probe(own: bool = False) -> tuple[Number, Number]:
    """Recovery of masked tokens, in percent and in bits, at 15% or at the model's own share."""
    at, where = (OWN, "the model's own p") if own else (PROBE_MASK_PROB, f"p = {PROBE_MASK_PROB:.0%}")
    recovered = Number(f"recovered at {where}, %", "probe", "accuracy", 1, 100, at)
    return recovered, Number(f"bits at {where}", "probe", "bits", 3, 1, at)


HOURS = Number("GPU hours, ours", "train", "gpu_seconds", 3, 1 / 3600)
ENTROPY = Number("bits: mean over states", "entropy", "entropy", 2)
POSTERIOR = Number("weighted by the posterior", "entropy", "entropy_posterior", 2)
