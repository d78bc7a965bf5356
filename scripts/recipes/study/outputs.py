"""Which result files each target of the workflow needs.

OUTPUT/study/KEY/{train,entropy,probe}.json, glue/TASK/seed-N/result.json
OUTPUT/table3/NAME/glue/TASK/POINT/seed-N/result.json, glue/TASK/best.json
OUTPUT/table3/NAME/squad/seed-N/scores.json
OUTPUT/table1/NAME/SET/seed-N/metrics.json

KEY is that of recipes.study.grids.Run, POINT that of recipes.glue.grids.Point.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from recipes.command_line import RecipeError
from recipes.files import read_json
from recipes.glue.grids import FLAGS, Point, points_of
from recipes.glue.tasks import TASKS
from recipes.study.grids import ENTROPY, EXPERIMENTS, GLUE_TASKS, QUALITY, QUALITY_MNLI, Run, expand
from recipes.study.settings import Settings

STUDY = "study"  # all figures and tables of it
UNTRAINED, FOREST = "untrained", "forest"  # baselines of table 1
STUDY_SEEDS, GLUE_SEEDS, MOLECULE_SEEDS = (1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3)  # the paper's, of fine-tuning
RUN_FIELDS, POINT_FIELDS = {"model", "k", "p", "seed", "schedule"}, set(FLAGS.values())


def study_targets(targets: Iterable[str]) -> list[str]:
    """Those of the study, each figure and table by its name."""
    targets = set(targets)
    return [name for name in EXPERIMENTS if targets & {name, STUDY}]


def study_files(settings: Settings, name: str) -> list[Path]:
    """The results that a figure or table needs; ``study``: all.

    Raises:
        RecipeError, ValueError: if there is no such run, or a setting is missing.
    """
    settings.check_flags()
    settings.check_glue()
    only = settings.fixed(RUN_FIELDS)
    if left := settings.only.keys() - RUN_FIELDS:
        raise RecipeError(f"only {sorted(left)[0]}: a run of the study has {', '.join(sorted(RUN_FIELDS))}")
    runs = expand(["all" if name == STUDY else name], settings.seeds, only)
    return [path for run, measures in runs.items() for path in run_files(settings, run, measures)]


def run_files(settings: Settings, run: Run, measures: set[str]) -> list[Path]:
    """The results of a run: its training's, and what is measured of it."""
    folder = settings.output / STUDY / run.key
    files = [folder / "train.json"]
    if ENTROPY in measures:
        files.append(folder / "entropy.json")
    if not {QUALITY, QUALITY_MNLI} & measures:
        return files
    if settings.glue is None:
        return [*files, folder / "probe.json"]
    tasks = GLUE_TASKS if QUALITY in measures else ("MNLI",)
    seeds = settings.of_finetuning(STUDY_SEEDS)
    return files + [
        folder / "glue" / task / f"seed-{seed}" / "result.json" for task in tasks for seed in seeds
    ]


def models_of(settings: Settings, target: str) -> dict[str, Path]:
    """name -> checkpoint.

    Raises:
        RecipeError: if there are none.
    """
    if not settings.models:
        raise RecipeError(f"{target} needs models=NAME=CHECKPOINT,..., the models to fine-tune")
    return settings.models


def table3_tasks(settings: Settings) -> list[str]:
    """The GLUE tasks of table 3: those asked for, or those that are prepared.

    Raises:
        RecipeError: if one is not prepared.
    """
    if settings.glue is None:
        return []
    tasks = settings.tasks or [name for name in TASKS if (settings.glue / f"{name}-bin").is_dir()]
    for task in tasks:
        if not (settings.glue / f"{task}-bin" / "summary.json").is_file():
            raise RecipeError(
                f"glue={settings.glue} has no {task}-bin: prepare it with scripts/prepare_glue.py"
            )
    if not tasks:
        raise RecipeError(
            f"glue={settings.glue} has no TASK-bin: give a folder made by scripts/prepare_glue.py"
        )
    return list(tasks)


def table3_points(settings: Settings, task: str) -> list[Point]:
    """The points of a task's grid."""
    if left := settings.only.keys() - POINT_FIELDS:
        raise RecipeError(f"only {sorted(left)[0]}: a fine-tuning has {', '.join(sorted(POINT_FIELDS))}")
    return points_of(TASKS[task], settings.grid, settings.fixed(POINT_FIELDS))


def table3_grid(settings: Settings, name: str, task: str) -> list[Path]:
    """The results of a task's grid, with the first seed."""
    seed = settings.of_finetuning(GLUE_SEEDS)[0]
    folder = settings.output / "table3" / name / "glue" / task
    return [folder / p.key / f"seed-{seed}" / "result.json" for p in table3_points(settings, task)]


def table3_seeds(settings: Settings, best: Path) -> list[Path]:
    """The results of a task's best point, with every seed, by its best.json."""
    seeds = settings.of_finetuning(GLUE_SEEDS)
    return [best.parent / read_json(best)["point"] / f"seed-{seed}" / "result.json" for seed in seeds]


def table3_grids(settings: Settings) -> list[tuple[str, str]]:
    """(model, task) of each grid; none if table 3 lacks models or data."""
    return [(name, task) for name in settings.models for task in table3_tasks(settings)]


def squad_files(settings: Settings) -> list[Path]:
    """SQuAD's results of table 3.

    Raises:
        RecipeError: if table 3 has no models, or nothing to fine-tune them on.
    """
    models = models_of(settings, "table3")
    if settings.glue is None and settings.squad is None:
        raise RecipeError(
            "table3 needs glue=FOLDER (scripts/prepare_glue.py), squad=FOLDER (prepare_squad.py) or both"
        )
    seeds = settings.of_finetuning(GLUE_SEEDS) if settings.squad else ()
    folder = settings.output / "table3"
    return [folder / name / "squad" / f"seed-{seed}" / "scores.json" for name in models for seed in seeds]


def table1_models(settings: Settings) -> dict[str, Path]:
    """name -> checkpoint, with the baselines: of ``untrained`` the one whose architecture it has."""
    models = models_of(settings, "table1")
    first = next(iter(models.values()))
    return {**models, UNTRAINED: first, FOREST: first}


def table1_files(settings: Settings) -> list[Path]:
    """The results of table 1.

    Raises:
        RecipeError: if a setting is missing.
    """
    if not settings.moleculenet:
        raise RecipeError("table1 needs moleculenet=SET=FOLDER,..., made by scripts/prepare_moleculenet.py")
    for name, folder in settings.moleculenet.items():
        if not (folder / "molecules.json").is_file():
            raise RecipeError(
                f"moleculenet: {folder} has no molecules.json: prepare {name} with prepare_moleculenet.py"
            )
    folder, seeds = settings.output / "table1", settings.of_finetuning(MOLECULE_SEEDS)
    return [
        folder / name / data / f"seed-{seed}" / "metrics.json"
        for name in table1_models(settings)
        for data in settings.moleculenet
        for seed in seeds
    ]
