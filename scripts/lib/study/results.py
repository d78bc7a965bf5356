"""Which result files each target of the workflow needs, and the commands that make them.

OUTPUT/study/NAME/lr-RATE/seed-N/{train,MEASURE}.json, glue/TASK/seed-N/result.json
OUTPUT/rates/NAME.json, NAME.flags
OUTPUT/table3/NAME/glue/TASK/POINT/seed-N/result.json, glue/TASK/best.json, best.flags
OUTPUT/table3/NAME/squad/seed-N/result.json
OUTPUT/table1/NAME/SET/seed-N/result.json

NAME is that of a run in the table of runs, or a model's; MEASURE one of scripts/workflow/measures.csv; RATE a
learning rate to try, ``best`` or ``default``; POINT one of lib.glue.grids to try, or ``best``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pandas as pd

from lib.command_line import Flags, UserError
from lib.files import read_json
from lib.folders import CONFIGS, MANIFEST
from lib.glue.grids import FLAGS, Point, points_of
from lib.glue.tasks import TASKS
from lib.study.runs import PROBE_MASK_PROB, QUALITY, WORKFLOW, Run
from lib.study.settings import check_glue, check_study

STUDY = "study"  # all figures and tables of it
UNTRAINED = "untrained"  # of table 1
STUDY_SEEDS, GLUE_SEEDS, MOLECULE_SEEDS = (1, 2, 3), (1, 2, 3, 4, 5), (1, 2, 3)  # the paper's, of fine-tuning
MEASURES = pd.read_csv(WORKFLOW / "measures.csv", index_col="measure", keep_default_na=False)
NO_PATHS = ("mlm", "repeated-mlm", "exlm-no-transitions")  # models whose states are on no path


def study_runs(settings: SimpleNamespace, name: str) -> dict[Run, set[str]]:
    """The pre-trainings that a figure, table or comparison reports, and what is measured of each; ``study``:
    of all of the paper's.

    Raises:
        UserError: if ``only`` leaves none, or a setting is missing.
    """
    check_study(settings)
    found: dict[Run, set[str]] = {}
    known, only = settings.targets, settings.only
    for target in [one for one in known.values() if one.name == name or name == STUDY and one.of_the_paper]:
        for run in filter(lambda run: _is_meant(run, only), target.runs):
            tuned = bool(rates_of(settings, run))
            for seed in settings.seeds[1:] if tuned else settings.seeds:
                one = replace(run, lr="best" if tuned else "default", seed=seed)
                found.setdefault(one, set()).update(target.measures)
    if not found:
        text = ",".join(f"{column}={value}" for column, value in only.items())
        runs = [run for one in known.values() if name in (one.name, STUDY) for run in one.runs]
        there = "; ".join(f"{c}: {', '.join(sorted({f'{getattr(r, c)}' for r in runs}))}" for c in only)
        raise UserError(f"only={text} leaves no run of {name}, which has {there}")
    return found


def _is_meant(run: Run, only: dict[str, str]) -> bool:
    columns = {"name": str, "model": str, "k": int, "p": float, "times": float}
    for column, value in only.items():
        if column not in columns:
            raise UserError(f"only={column}={value}: a run has {', '.join(columns)}")
        try:
            if getattr(run, column) != columns[column](value):
                return False
        except ValueError:
            raise UserError(f"only={column}={value}: {column} is a number") from None
    return True


def rates_of(settings: SimpleNamespace, run: Run) -> tuple[float, ...]:
    """The learning rates to try, if there are seeds to report; none: the size's is used."""
    return (run.rates or tuple(settings.rates or ())) if len(settings.seeds) > 1 else ()


def rate_files(settings: SimpleNamespace, name: str) -> list[Path]:
    """The results that choose a run's learning rate: of the first seed, with each."""
    run = run_named(settings, name)
    wanted = {measure for target in run.targets for measure in settings.targets[target].measures}
    trials = [replace(run, lr=f"{lr:g}", seed=settings.seeds[0]) for lr in rates_of(settings, run)]
    measure = "joint" if "joint" in wanted else "probe"
    return [Path(settings.output, STUDY, trial.folder, f"{measure}.json") for trial in trials]


def run_named(settings: SimpleNamespace, name: str) -> Run:
    return next(run for target in settings.targets.values() for run in target.runs if run.name == name)


def study_files(settings: SimpleNamespace, name: str) -> list[Path]:
    """The results that a target needs of its pre-trainings.

    Raises:
        UserError: of :func:`study_runs`.
    """
    found, checked = [], set()
    for run, measures in study_runs(settings, name).items():
        folder = Path(settings.output, STUDY, run.folder)
        tasks = {task for measure in measures for task in QUALITY.get(measure, ())}
        if tasks and not settings.glue:
            measures, tasks = measures | {"probe"}, set()
        if not tasks <= checked:
            check_glue(settings, tuple(sorted(tasks)), same_dictionary=True)
            checked |= tasks
        made = [one for one in MEASURES.index if one in measures and applies(one, run, settings.data)]
        found += [folder / f"{one}.json" for one in ("train", *made)]
        seeds = settings.finetune_seeds or STUDY_SEEDS
        found += [folder / f"glue/{task}/seed-{seed}/result.json" for task in sorted(tasks) for seed in seeds]
    return found


def applies(measure: str, run: Run, data: str | None) -> bool:
    """Whether a run has a measure: molecules have more, and a model without paths fewer."""
    only = MEASURES.loc[measure, "only"]
    manifest = (read_json(Path(data) / MANIFEST) if data else None) or {"settings": {}}
    if only == "molecules" and "smiles" not in manifest["settings"]:  # --smiles of prepare_smiles.py
        return False
    return not (only == "paths" and run.model in NO_PATHS)


def measure_command(settings: SimpleNamespace, measure: str, run: Run) -> str:
    """The command of a measure but for its data and output; --mask-prob takes all that follows it."""
    row, folder = MEASURES.loc[measure], Path(settings.output, STUDY, run.folder)
    shares = " ".join(map(str, sorted({PROBE_MASK_PROB, run.own_mask_prob})))
    options = row["options"].format(p=run.own_mask_prob, shares=shares, sentences=settings.sentences)
    return f"fs_plugins.analysis.{row['module']} {shlex.quote(str(folder))}/{row['checkpoints']} {options}"


def pretrain_options(settings: SimpleNamespace, run: Run) -> list[str]:
    """pretrain_text.sh's options of a run, besides model and folder; those of its row come last."""
    k = [] if run.model == "mlm" else ["--k", str(run.k)]
    words = [*k, "--p", f"{run.p:g}", "--seed", str(run.seed)]
    updates = settings.updates
    if run.times != 1 and not updates:
        updates = Flags.read(CONFIGS / "pretrain" / f"{settings.size}.flags").whole("--max-update")
    if updates:
        words += ["--updates", str(round(run.times * updates))]
    words += shlex.split(settings.flags)
    words += ["--lr", run.lr] if run.lr not in ("default", "best") else []
    return [*words, *run.flags]


def models_of(settings: SimpleNamespace, target: str) -> dict[str, str]:
    """name -> checkpoint.

    Raises:
        UserError: if there are none.
    """
    if not settings.models:
        raise UserError(f"{target} needs models=NAME=CHECKPOINT,..., the models to fine-tune")
    return settings.models


def glue_points(settings: SimpleNamespace, task: str) -> list[Point]:
    """The points of a task's grid in table 3.

    Raises:
        UserError, ValueError: if there are no such points.
    """
    if taken := FLAGS.keys() & Flags.of(shlex.split(settings.flags)).keys():
        raise UserError(
            f"flags: {', '.join(sorted(taken))} would apply to all points of a grid, which differ in it: "
            "give only=lr=2e-5 and the like"
        )
    return points_of(TASKS[task], settings.grid, settings.only)


def glue_tasks(settings: SimpleNamespace) -> list[str]:
    """The GLUE tasks of table 3: those asked for, or those that are prepared.

    Raises:
        UserError: if one is not prepared.
    """
    if settings.glue is None:
        return []
    prepared = [name for name in TASKS if Path(settings.glue, f"{name}-bin").is_dir()]
    if not (tasks := settings.tasks or prepared):
        raise UserError(
            f"glue={settings.glue} has no TASK-bin: give a folder made by scripts/prepare_glue.py"
        )
    check_glue(settings, tuple(tasks), same_dictionary=False)
    return tasks


def grid_files(settings: SimpleNamespace, name: str, task: str) -> list[Path]:
    """The results of a task's grid, with the first seed."""
    seed = (settings.finetune_seeds or GLUE_SEEDS)[0]
    folder = Path(settings.output, "table3", name, "glue", task)
    return [folder / point.key / f"seed-{seed}/result.json" for point in glue_points(settings, task)]


def table3_files(settings: SimpleNamespace) -> list[Path]:
    """The results of table 3: of each task's best point with the other seeds, and of SQuAD.

    Raises:
        UserError: if table 3 has no models, or nothing to fine-tune them on.
    """
    models, seeds = models_of(settings, "table3"), settings.finetune_seeds or GLUE_SEEDS
    if settings.glue is None and settings.squad is None:
        raise UserError(
            "table3 needs glue=FOLDER (scripts/prepare_glue.py), squad=FOLDER (prepare_squad.py) or both"
        )
    found = []
    for folder in (Path(settings.output, "table3", name) for name in models):
        for task in glue_tasks(settings):
            glue_points(settings, task)
            best = folder / "glue" / task
            found += [best / "best.json", *(best / f"best/seed-{seed}/result.json" for seed in seeds[1:])]
        found += [folder / f"squad/seed-{seed}/result.json" for seed in seeds if settings.squad]
    return found


def table1_models(settings: SimpleNamespace) -> dict[str, str | None]:
    """name -> checkpoint; of ``untrained`` the one whose architecture it has, of the baselines None.

    Raises:
        UserError: if there are no models.
    """
    models = models_of(settings, "table1")
    return {**models, UNTRAINED: next(iter(models.values())), **dict.fromkeys(settings.baselines)}


def table1_files(settings: SimpleNamespace) -> list[Path]:
    """The results of table 1.

    Raises:
        UserError: if a setting is missing.
    """
    if not settings.moleculenet:
        raise UserError("table1 needs moleculenet=SET=FOLDER,..., made by scripts/prepare_moleculenet.py")
    for name, folder in settings.moleculenet.items():
        if not Path(folder, "molecules.json").is_file():
            raise UserError(
                f"moleculenet: {folder} has no molecules.json: prepare {name} with prepare_moleculenet.py"
            )
    seeds = settings.finetune_seeds or MOLECULE_SEEDS
    folders = [Path(settings.output, "table1", name) for name in table1_models(settings)]
    return [
        f / data / f"seed-{n}/result.json" for f in folders for data in settings.moleculenet for n in seeds
    ]


def files_of(settings: SimpleNamespace, target: str) -> Iterable[Path]:
    """The results that any target needs."""
    special = {"table1": table1_files, "table3": table3_files}
    return special[target](settings) if target in special else study_files(settings, target)
