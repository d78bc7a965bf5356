"""Which result files each target of the workflow needs.

OUTPUT/study/NAME/lr-RATE/seed-N/{train,entropy,MEASURE}.json, glue/TASK/seed-N/result.json
OUTPUT/rates/NAME.json
OUTPUT/table3/NAME/glue/TASK/POINT/seed-N/result.json, glue/TASK/best.json
OUTPUT/table3/NAME/squad/seed-N/scores.json
OUTPUT/table1/NAME/SET/seed-N/metrics.json

NAME is that of a run in the table of runs, or a model's; MEASURE is one of lib.study.measures, POINT one
of lib.glue.grids.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from lib.command_line import UserError
from lib.files import read_json
from lib.flags import Flags
from lib.glue.grids import FLAGS, Point, points_of
from lib.glue.tasks import TASKS
from lib.study.measures import MEASURES, applies
from lib.study.runs import GLUE_TASKS, JOINT, PROBE, QUALITY, QUALITY_MNLI, Run, expand
from lib.study.settings import Settings

STUDY = "study"  # all figures and tables of it
UNTRAINED = "untrained"  # of table 1
STUDY_SEEDS, GLUE_SEEDS, MOLECULE_SEEDS = (1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3)  # the paper's, of fine-tuning


def study_targets(settings: Settings, targets: Iterable[str]) -> list[str]:
    """Those of the study, each figure, table and comparison by its name."""
    targets, known = set(targets), settings.experiments
    return [name for name in known if name in targets or STUDY in targets and known[name].of_the_paper]


def study_runs(settings: Settings, name: str) -> dict[Run, set[str]]:
    """The runs of a figure, table or comparison, without a learning rate, and their measures; ``study``: of
    all of the paper's.

    Raises:
        UserError: if there is no such run, or a setting is missing.
    """
    settings.check_flags()
    settings.check_glue()
    names = ["all" if name == STUDY else name]
    return expand(settings.experiments, names, settings.seeds, settings.only)


def study_files(settings: Settings, name: str) -> list[Path]:
    """The results that a target needs of the runs whose learning rates are the size's.

    Raises:
        UserError: of :func:`study_runs`.
    """
    runs = study_runs(settings, name).items()
    return [
        p for run, measures in runs if not rates_of(settings, run) for p in run_files(settings, run, measures)
    ]


def rates_of(settings: Settings, run: Run) -> tuple[float, ...]:
    """The learning rates to try, if there are seeds to report; none: the size's is used."""
    return (run.rates or settings.rates) if len(settings.seeds) > 1 else ()


def rows_to_tune(settings: Settings, name: str) -> dict[Run, set[str]]:
    """The rows of a target whose learning rates are to be chosen, and their measures.

    None where :func:`study_files` raises: not every target is asked for.
    """
    try:
        runs = study_runs(settings, name)
    except UserError:
        return {}
    return {run.row: measures for run, measures in runs.items() if rates_of(settings, run)}


def rate_files(settings: Settings, name: str) -> list[Path]:
    """The results of a row, by its name, that choose its learning rate: of the first seed, with each."""
    row = settings.runs[name]
    wanted = {measure for one in row.targets for measure in settings.experiments[one].measures}
    measure = JOINT if JOINT in wanted else PROBE
    runs = [replace(row, lr=lr, seed=settings.seeds[0]) for lr in rates_of(settings, row)]
    return [settings.output / STUDY / run.folder / f"{measure}.json" for run in runs]


def files_at_best_rate(settings: Settings, row: Run, measures: set[str], best: Path) -> list[Path]:
    """The results of a row at its best learning rate, by its rates/NAME.json, with the other seeds."""
    lr = read_json(best)["lr"]
    runs = [replace(row, lr=lr, seed=seed) for seed in settings.seeds[1:]]
    return [path for run in runs for path in run_files(settings, run, measures)]


def run_files(settings: Settings, run: Run, measures: set[str]) -> list[Path]:
    """The results of a run: its training's, and what is measured of it."""
    folder = settings.output / STUDY / run.folder
    files = [folder / "train.json"]
    quality = {QUALITY, QUALITY_MNLI} & measures
    named = measures | ({PROBE} if quality and settings.glue is None else set())
    files += [
        folder / f"{name}.json" for name in MEASURES if name in named and applies(name, run, settings.data)
    ]
    if not quality or settings.glue is None:
        return files
    tasks = GLUE_TASKS if QUALITY in measures else ("MNLI",)
    seeds = settings.of_finetuning(STUDY_SEEDS)
    return files + [
        folder / "glue" / task / f"seed-{seed}" / "result.json" for task in tasks for seed in seeds
    ]


def missing(settings: Settings, targets: Iterable[str]) -> list[Path]:
    """The results that are not there, of those that targets need at a chosen learning rate or point.

    Snakemake learns of these jobs while it runs, from its checkpoints, and has been seen to end without them.
    """
    needed = []
    for target in targets:
        for row, measures in rows_to_tune(settings, target).items():
            best = settings.output / "rates" / f"{row.name}.json"
            needed += files_at_best_rate(settings, row, measures, best) if best.exists() else [best]
    if "table3" in targets:
        for name, task in table3_grids(settings):
            best = settings.output / "table3" / name / "glue" / task / "best.json"
            needed += table3_seeds(settings, best) if best.exists() else [best]
    return [path for path in needed if not path.exists()]


def models_of(settings: Settings, target: str) -> dict[str, Path]:
    """name -> checkpoint.

    Raises:
        UserError: if there are none.
    """
    if not settings.models:
        raise UserError(f"{target} needs models=NAME=CHECKPOINT,..., the models to fine-tune")
    return settings.models


def table3_tasks(settings: Settings) -> list[str]:
    """The GLUE tasks of table 3: those asked for, or those that are prepared.

    Raises:
        UserError: if one is not prepared.
    """
    if settings.glue is None:
        return []
    tasks = settings.tasks or [name for name in TASKS if (settings.glue / f"{name}-bin").is_dir()]
    for task in tasks:
        if not (settings.glue / f"{task}-bin" / "summary.json").is_file():
            raise UserError(
                f"glue={settings.glue} has no {task}-bin: prepare it with scripts/prepare_glue.py"
            )
    if not tasks:
        raise UserError(
            f"glue={settings.glue} has no TASK-bin: give a folder made by scripts/prepare_glue.py"
        )
    return list(tasks)


def table3_points(settings: Settings, task: str) -> list[Point]:
    """The points of a task's grid.

    Raises:
        UserError, ValueError: if there are no such points.
    """
    if taken := FLAGS.keys() & Flags.of(shlex.split(settings.flags)).keys():
        raise UserError(
            f"flags: {', '.join(sorted(taken))} would apply to all points of a grid, which differ in it: "
            "give only=lr=2e-5 and the like"
        )
    return points_of(TASKS[task], settings.grid, settings.only)


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
        UserError: if table 3 has no models, or nothing to fine-tune them on.
    """
    models = models_of(settings, "table3")
    if settings.glue is None and settings.squad is None:
        raise UserError(
            "table3 needs glue=FOLDER (scripts/prepare_glue.py), squad=FOLDER (prepare_squad.py) or both"
        )
    seeds = settings.of_finetuning(GLUE_SEEDS) if settings.squad else ()
    folder = settings.output / "table3"
    return [folder / name / "squad" / f"seed-{seed}" / "scores.json" for name in models for seed in seeds]


def table1_models(settings: Settings) -> dict[str, Path | None]:
    """name -> checkpoint; of ``untrained`` the one whose architecture it has, of the baselines None.

    Raises:
        UserError: if there are no models.
    """
    models = models_of(settings, "table1")
    first = next(iter(models.values()))
    return {**models, UNTRAINED: first, **dict.fromkeys(settings.baselines)}


def table1_files(settings: Settings) -> list[Path]:
    """The results of table 1.

    Raises:
        UserError: if a setting is missing.
    """
    if not settings.moleculenet:
        raise UserError("table1 needs moleculenet=SET=FOLDER,..., made by scripts/prepare_moleculenet.py")
    for name, folder in settings.moleculenet.items():
        if not (folder / "molecules.json").is_file():
            raise UserError(
                f"moleculenet: {folder} has no molecules.json: prepare {name} with prepare_moleculenet.py"
            )
    folder, seeds = settings.output / "table1", settings.of_finetuning(MOLECULE_SEEDS)
    return [
        folder / name / data / f"seed-{seed}" / "metrics.json"
        for name in table1_models(settings)
        for data in settings.moleculenet
        for seed in seeds
    ]
