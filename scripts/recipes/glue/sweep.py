"""Table 11's grid search as runs: each a fine-tuning of one point with one seed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from recipes.glue.grids import Point
from recipes.glue.tasks import TASKS
from recipes.glue.training import data_fingerprint, finetuning_command
from recipes.study.folder import FolderError, read_json
from recipes.study.runner import Grid
from recipes.study.steps import Step

FROM_MNLI = ("RTE", "MRPC", "STS-B")  # what RoBERTa's recipe starts from a model fine-tuned on MNLI
STEP = "finetune"
RESULT = "result.json"


@dataclass(frozen=True, order=True)
class Finetuning:
    """One fine-tuning of a sweep."""

    task: str
    lr: str
    batch: str
    epochs: str
    warmup: str
    seed: int

    @property
    def point(self) -> Point:
        return Point(self.lr, self.batch, self.epochs, self.warmup)

    @property
    def key(self) -> str:
        """The name of the run's folder."""
        return f"{self.task}-{self.point.key}-s{self.seed}"


@dataclass(frozen=True)
class Sweep:
    """What all fine-tunings of a folder share.

    Attributes:
        output: the folder.
        checkpoint: the pre-trained model.
        data: the folder with TASK-bin.
        init_from: a checkpoint of MNLI, for FROM_MNLI; or None.
        extra: more flags for fairseq-train.
    """

    output: Path
    checkpoint: Path
    data: Path
    init_from: Path | None = None
    extra: tuple[str, ...] = ()

    def folder(self, run: Finetuning) -> Path:
        return self.output / "runs" / run.key

    def starts_from(self, task: str) -> Path | None:
        return self.init_from if task in FROM_MNLI else None


class SweepGrid(Grid):
    """The runner of the study of [MASK], with a Sweep for study and Finetunings for runs."""

    def steps(self, run: Finetuning) -> list[Step]:
        folder = self.study.folder(run)
        return [Step(STEP, folder / RESULT, folder / f"{STEP}.log", run.seed)]

    def command(self, run: Finetuning, step: Step, device: str | None) -> list[str]:
        study = self.study
        return finetuning_command(
            run.task,
            study.checkpoint,
            study.data,
            study.folder(run),
            run.point,
            run.seed,
            cpu=device is None,
            start=study.starts_from(run.task),
            extra=study.extra,
        )

    def finish(self, run: Finetuning, step: Step) -> None:
        if not step.done:
            raise FolderError(f"the command wrote no {step.result}")

    def cost(self, run: Finetuning, step: Step) -> float:
        """Sentences read, in units of 10,000: a guess of its time."""
        return (1 + rows_in(self.study.data, run.task) * int(run.epochs)) / 10_000


def rows_in(data: Path, task: str) -> int:
    """Rows of a task's training set.

    Raises:
        FolderError: if the task was not prepared.
    """
    path = data / f"{task}-bin" / "summary.json"
    if not path.is_file():
        raise FolderError(f"there is no {path}: prepare {task} with scripts/prepare_glue.py")
    return json.loads(path.read_text())["train"]["kept"]


def check_results(sweep: Sweep, task: str) -> None:
    """Raises FolderError where a task's finished runs were fine-tuned on other data than are there now."""
    found = sorted((sweep.output / "runs").glob(f"{task}-lr*/{RESULT}"))
    there = data_fingerprint(sweep.data / f"{task}-bin") if found else ""
    for path in found:
        if read_json(path).get("data", {"fingerprint": there})["fingerprint"] != there:
            raise FolderError(
                f"{path.parent} was fine-tuned on other data than {sweep.data / task}-bin holds now: choose "
                f"another --output, or remove the runs of {task}"
            )


def runs_of(points: dict[str, list[Point]], seeds: list[int]) -> dict[Finetuning, set[str]]:
    """The runs of each task's points, the first seed's first."""
    return {
        Finetuning(task, **asdict(point), seed=seed): set()
        for seed in seeds
        for task, found in points.items()
        for point in found
    }


def result_of(sweep: Sweep, run: Finetuning) -> dict | None:
    """What a finished run wrote, else None.

    Raises:
        FolderError: if it is damaged.
    """
    path = sweep.folder(run) / RESULT
    try:
        return read_json(path)
    except ValueError as error:
        raise FolderError(f"{path} is damaged ({error}): remove it, and run_glue.py makes it anew") from None


def dev_score(result: dict) -> float:
    """The metric of table 3 on the development set; of MNLI, on the matched one."""
    return result["scores"]["valid"][result["metric"]]


def scores_of_points(sweep: Sweep, task: str, points: list[Point], seeds: list[int]) -> dict[Point, float]:
    """The score with the first seed of each point that is finished."""
    scores = {}
    for point in points:
        run = Finetuning(task, **asdict(point), seed=seeds[0])
        if (result := result_of(sweep, run)) is not None:
            scores[point] = dev_score(result)
    return scores


def best_point(sweep: Sweep, task: str, points: list[Point], seeds: list[int]) -> Point | None:
    """The point that scored best with the first seed; of equals, the first. None where none is done."""
    scores = scores_of_points(sweep, task, points, seeds)
    return max(scores, key=scores.get) if scores else None


def scores_over_seeds(sweep: Sweep, task: str, point: Point, seeds: list[int]) -> dict[str, list[float]]:
    """split -> the metric of each finished seed."""
    found: dict[str, list[float]] = {}
    for seed in seeds:
        result = result_of(sweep, Finetuning(task, **asdict(point), seed=seed))
        for split, scores in (result["scores"] if result else {}).items():
            found.setdefault(split, []).append(scores[TASKS[task].metric])
    return found
