"""What a study's folder holds, as numbers by run: means and spreads over seeds."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from recipes.glue.tasks import TASKS
from recipes.study.folder import FolderError, read_json
from recipes.study.grids import Run
from recipes.study.steps import GLUE_TASKS, PROBE_RATIO

PAPER = json.loads(Path(__file__).with_name("paper_numbers.json").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Value:
    """A mean over seeds, with its sample standard deviation where there are several."""

    mean: float
    spread: float | None
    seeds: int

    def text(self, digits: int = 1) -> str:
        spread = f" ± {self.spread:.{digits}f}" if self.spread is not None else ""
        return f"{self.mean:.{digits}f}{spread}"


def over_seeds(numbers: Iterable[float]) -> Value | None:
    numbers = list(numbers)
    if not numbers:
        return None
    spread = statistics.stdev(numbers) if len(numbers) > 1 else None
    return Value(statistics.fmean(numbers), spread, len(numbers))


def corrupted_share(k: int, p: float, tokens: int) -> float:
    """Share of the tokens of a sample whose k copies are all masked, to be expected from fairseq's masking.

    It masks a fixed number of the N = k * ``tokens`` positions, p N rounded up or down at random: copies of a
    token are drawn without replacement. Less than p^k, by about k (k - 1) (1 - p) / (2 p N) of it.
    """
    positions = k * tokens
    low, above = divmod(p * positions, 1)

    def all_masked(masks: float) -> float:
        return math.prod(max(0.0, masks - i) / (positions - i) for i in range(k))

    return (1 - above) * all_masked(low) + above * all_masked(low + 1)


class Results:
    """The finished steps of a study's folder.

    Raises:
        FolderError: where the folder is none of run_experiments.py.
    """

    def __init__(self, output: Path):
        self.output = output
        settings = read_json(output / "settings.json")
        if settings is None:
            raise FolderError(
                f"{output} has no settings.json: give the --output folder of run_experiments.py"
            )
        self.settings = settings
        self.records: dict[Run, dict] = {}
        for path in sorted((output / "runs").glob("*/run.json")):
            record = read_json(path)
            run = Run(*(record[name] for name in ("model", "k", "p", "seed", "schedule")))
            self.records[run] = record
        self._keys = {replace(run, seed=0).key.removesuffix("-s0"): run for run in self.records}

    @property
    def seeds(self) -> list[int]:
        return sorted({run.seed for run in self.records if self.read(run, "train")})

    def read(self, run: Run, step: str) -> dict | None:
        """The result of a step of a run, None where it is not done."""
        return read_json(self.output / "runs" / run.key / f"{step}.json")

    def run(self, key: str) -> Run | None:
        """A run by its key without the seed, whatever its seed; None where there is none."""
        return self._keys.get(key)

    def siblings(self, run: Run | None) -> list[Run]:
        """The run with each seed there is."""
        if run is None:
            return []
        return sorted(other for other in self.records if replace(other, seed=run.seed) == run)

    def _values(self, run: Run | None, step: str, read) -> Value | None:
        found = (self.read(sibling, step) for sibling in self.siblings(run))
        numbers = (read(result) for result in found if result is not None)
        return over_seeds(number for number in numbers if number is not None)

    def corrupted(self, run: Run) -> tuple[Value, int] | None:
        """Percent of the tokens whose copies were all masked, and of how many tokens."""
        found = [result["corrupted"] for r in self.siblings(run) if (result := self.read(r, "train"))]
        found = [measured for measured in found if measured]
        value = over_seeds(100 * measured["proportion"] for measured in found)
        return (value, sum(measured["tokens"] for measured in found)) if value else None

    def tokens_per_sample(self, run: Run) -> int | None:
        """Tokens of a pre-training sample, before repetition."""
        command = self.records[run]["commands"].get("fairseq-train", [])
        found = [command[i + 1] for i, word in enumerate(command[:-1]) if word == "--tokens-per-sample"]
        return int(found[-1]) if found else None

    def entropy(self, run: Run | None, name: str = "entropy") -> Value | None:
        """Bits: ``entropy`` (plain mean), or ``entropy_posterior``."""
        return self._values(run, "entropy", lambda result: (result.get(name) or {}).get("mean"))

    def probe(self, run: Run | None, ratio: float = PROBE_RATIO, name: str = "accuracy") -> Value | None:
        """Recovery of masked tokens: ``accuracy`` in percent, or ``bits``."""
        scale = 100 if name == "accuracy" else 1

        def read(result):
            return next((scale * r[name] for r in result["results"] if r["mask_prob"] == ratio), None)

        return self._values(run, "probe", read)

    def glue(self, run: Run | None, task: str) -> Value | None:
        """Accuracy in percent over pre-training and fine-tuning seeds, of each fine-tuning's best epoch.

        ``MNLI`` is the mean of matched and mismatched, ``MNLI-m`` and ``MNLI-mm`` each of them, ``Avg`` the
        mean over the four tasks of each task's mean.
        """
        if task == "Avg":
            means = [self.glue(run, name) for name in GLUE_TASKS]
            return Value(statistics.fmean(v.mean for v in means), None, 1) if all(means) else None
        name, _, half = task.partition("-")
        sets = {"m": ("valid",), "mm": ("valid1",)}.get(half, TASKS[name].valid_splits)
        numbers = []
        for sibling in self.siblings(run):
            for path in sorted((self.output / "runs" / sibling.key).glob(f"glue-{name}-s*.json")):
                best = read_json(path)["best"]
                numbers.append(statistics.fmean(best[s] for s in sets))
        return over_seeds(numbers)

    def seconds(self, run: Run | None) -> Value | None:
        return self._values(run, "train", lambda result: result["training_seconds"])

    def curves(self, run: Run, kind: str = "train") -> list[dict]:
        """The records of a run's metrics.jsonl."""
        path = self.output / "runs" / run.key / "metrics.jsonl"
        if not path.exists():
            return []
        records = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
        return [record for record in records if record["kind"] == kind]

    def has_glue(self) -> bool:
        return any((self.output / "runs").glob("*/glue-*.json"))
