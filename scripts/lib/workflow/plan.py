"""What each target of the workflow needs, as files in OUTPUT, and the jobs that make these.

study/NAME/lr-RATE/seed-N/{train,MEASURE}.json           a pre-training, of a row of runs.csv (:class:`Run`)
study/NAME/lr-RATE/seed-N/glue/TASK/table6/seed-N/result.json
TABLE/MODEL/TASK/POINT/seed-N/result.json                a fine-tuning, or a forest in its place
study/NAME/best.{json,flags}, TABLE/MODEL/TASK/best.*    the best of the trials with the first seed

RATE is a learning rate to try, ``best`` or ``default``; POINT is one of table 11's to try, ``best``, or the
paper's table that has the only one. Folders of runs and fine-tunings are relative to OUTPUT.
"""

import os
import shlex
from argparse import Namespace
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lib import squad
from lib.command_line import Flags, UserError
from lib.files import CONFIGS, RESULT, ROOT, read_json
from lib.glue import FROM_MNLI, TASKS
from lib.recipes import points_of
from lib.run.launch import LAST
from lib.workflow.runs import (
    ABOUT,
    BEST,
    DEFAULT,
    MOLECULES,
    PROBE_P,
    SETS,
    STUDY,
    TEXT,
    Run,
    Target,
    targets,
)

from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary

REPRODUCE = "reproduce"  # all figures and tables of the paper; STUDY is those of its study
SEEDS = {STUDY: [1, 2, 3], MOLECULES: [1, 2, 3], TEXT: [1, 2, 3, 4, 5]}  # of fine-tuning
MEASURES = ABOUT["measures"]
EXAMPLE = "example/index.html"  # page of scripts/explore.py
MEASURED = {measure: f"{measure}.json" for measure in MEASURES} | {"example": EXAMPLE}
# a rule of the Snakefile -> the file that its jobs write last
RULES = {"pretrain": "train.json", **MEASURED, "finetune": RESULT, "best": "best.json"}
UNTRAINED, FOREST = "untrained", "forest"  # in table 1, besides models
SCRIPTS = os.path.relpath(ROOT / "scripts")


def targets_of(name: str) -> list[Target]:
    """Returns the figures and tables that a target of the workflow stands for."""
    every = targets()
    return [every[name]] if name in every else [t for t in every.values() if name == REPRODUCE or t.of_study]


def files(settings: Namespace, name: str) -> list[Path]:
    """Returns the results that a target needs, each once. Raises UserError if a setting is missing, or
    ``only`` leaves none."""
    found: list[Path] = []
    for target in targets_of(name):
        found += (_of_study if target.of_study else _of_table)(settings, target)
    return [settings.output / path for path in dict.fromkeys(found)]


def _of_study(settings: Namespace, target: Target) -> list[Path]:
    """Returns results of pre-trainings, and of their fine-tunings if GLUE is given, else of the probe."""
    tasks = target.tasks if settings.glue else []
    measures = {*target.measures} | ({"probe"} if target.tasks and not tasks else set())
    names = ["train.json", *(MEASURED[name] for name in MEASURED if name in measures)]
    seeds = settings.finetune_seeds or SEEDS[STUDY]
    names += [f"glue/{task}/table6/seed-{seed}/{RESULT}" for task in tasks for seed in seeds]
    return [run.folder / name for run in pretrainings(settings, target) for name in names]


def _of_table(settings: Namespace, target: Target) -> list[Path]:
    """Returns the results of each model on each task of a table: of a grid, the choice of its best point, and
    that point's with the other seeds. The table of the data sets has none: the report reads the sets."""
    if not (tasks := tasks_of(settings, target)):
        glue = "glue=FOLDER with a TASK-bin, of prepare_glue.py, or squad=FOLDER"
        needs = glue if target.name == TEXT else "moleculenet=SET=FOLDER,..., of prepare_moleculenet.py"
        raise UserError(f"{target.name} needs {needs}")
    if target.name == SETS:
        return []
    first, *rest = settings.finetune_seeds or SEEDS[target.name]
    names = [f"table8/seed-{seed}/{RESULT}" for seed in (first, *rest)]
    if target.name == TEXT:
        names = ["best.json", *(f"{BEST}/seed-{seed}/{RESULT}" for seed in rest)]
    models = [*models_of(settings, target), *([UNTRAINED, FOREST] if target.name == MOLECULES else ())]
    return [Path(target.name, model, task, name) for model in models for task in tasks for name in names]


def pretrainings(settings: Namespace, target: Target) -> list[Run]:
    """Returns the pre-trainings that a target reports: each row with all seeds; if rates are tried, with all
    but the one that chooses."""
    only = {name: value for name, value in settings.only.items() if name not in settings.point}
    rows = [run for run in target.runs if all(getattr(run, name) == only[name] for name in only)]
    if not rows:
        raise UserError(f"only={only} leaves no run of {target.name}: see scripts/workflow/runs.csv")
    name = "smiles" if rows[0].of_molecules else "data"
    if not getattr(settings, name) and (settings.size != "smoke" or settings.glue or name == "smiles"):
        raise UserError(f"{target.name} needs {name}=FOLDER, data for pre-training")
    lr, seeds = (BEST, settings.seeds[1:]) if settings.rates else (DEFAULT, settings.seeds)
    return [replace(run, lr=lr, seed=seed) for run in rows for seed in seeds]


def tasks_of(settings: Namespace, target: Target) -> list[str]:
    """Returns the fine-tuning tasks of a target that have data; of a folder that does not exist yet, all."""
    if target.of_study:
        return target.tasks if settings.glue else []
    if target.name != TEXT:
        return [*settings.moleculenet]
    glue = Path(settings.glue or "")
    tasks = settings.tasks or [t for t in TASKS if not glue.is_dir() or (glue / f"{t}-bin").is_dir()]
    return (tasks if settings.glue else []) + ([squad.NAME] if settings.squad else [])


def data_of(settings: Namespace, task: str) -> str:
    """Returns the data of a fine-tuning."""
    own = {**dict.fromkeys(TASKS, settings.glue), squad.NAME: settings.squad}
    return {**settings.moleculenet, **own}[task]


def models_of(settings: Namespace, target: Target) -> dict[str, Path]:
    """Returns the checkpoints that the models of a table start from: those given, otherwise those of its
    pre-trainings with the first seed."""
    if settings.models:
        return {name: Path(path) for name, path in settings.models.items()}
    runs = pretrainings(settings, target)
    return {run.name: settings.output / run.folder / LAST for run in runs if run.seed == runs[0].seed}


def trials(settings: Namespace, place: Path) -> list[Path]:
    """Returns the results that choose PLACE/best.json: with each learning rate of a row of runs.csv, or each
    point of a task's grid."""
    if place.parts[0] == STUDY:
        names = [f"lr-{rate:g}/seed-{settings.seeds[0]}/probe.json" for rate in settings.rates]
    else:
        seed = (settings.finetune_seeds or SEEDS[place.parts[0]])[0]
        points = points_of(place.name, settings.grid, settings.point)
        names = [f"{point.key}/seed-{seed}/{RESULT}" for point in points]
    return [settings.output / place / name for name in names]


def check(settings: Namespace, name: str) -> None:
    """Raises ValueError for data or models of a target that do not exist, and for data that were prepared
    with different dictionaries: a job would find out after days of pre-training."""
    for target in targets_of(name):
        data = settings.smiles if target.name in (MOLECULES, SETS) else settings.data
        paths = [Path(data, DICT_FILE)] if data and not settings.models else []
        for task in tasks_of(settings, target):
            inner = f"{task}-bin/input0" if task in TASKS else ""
            paths.append(Path(data_of(settings, task), inner, DICT_FILE))
        for path in map(Path, (*paths, *settings.models.values(), *settings.init_from.values())):
            if not path.exists():
                raise UserError(f"{target.name}: {path} does not exist: prepare it first, or plan with -n")
        for path in paths[1:]:
            Vocabulary.read(path).check(Vocabulary.read(paths[0]), f"prepare it with {paths[0]}")


# ---- jobs


class Job(NamedTuple):
    """A command for the shell, the files that it needs, and its GPUs."""

    command: str
    needs: list[Path]
    gpus: int = 0


def job(settings: Namespace, rule: str, folder: Path) -> Job:
    """Returns the job that makes FOLDER/FILE, by a rule of RULES."""
    if rule == "best":
        needs = trials(settings, folder)
        words = ["python", "-m", "lib.workflow.jobs", "best", settings.output / folder / RULES[rule], *needs]
        return Job(shlex.join(map(str, words)), needs)
    if rule == "finetune":
        return finetune(settings, folder)
    return (
        pretrain(settings, Run.at(folder)) if rule == "pretrain" else measure(settings, rule, Run.at(folder))
    )


def on_gpus(settings: Namespace, gpus: int, log: Path, words: list, best: list[Path]) -> str:
    """Returns a command for the shell, of a job on so many GPUs, with the flags beside a best.json."""
    sharing = ["--jobs-per-gpu", settings.jobs_per_gpu] if settings.jobs_per_gpu > 1 else []
    words = ["python", "-m", "lib.run.on_gpu", "--gpus", gpus, *sharing, "--log", log, "--", *words]
    return " ".join(
        [
            shlex.join(map(str, words)),
            *(f"$(cat {shlex.quote(str(path.with_suffix('.flags')))})" for path in best),
        ]
    )


def device(gpus: int) -> list:
    """Returns the option of a training on so many GPUs."""
    return ["--gpus", gpus] if gpus else ["--cpu"]


def pretraining_data(settings: Namespace, run: Run) -> Path:
    """Returns the data of a pre-training; if none are given, those of the quickstart."""
    return Path((settings.smiles if run.of_molecules else settings.data) or settings.output / "data-bin")


def pretrain(settings: Namespace, run: Run) -> Job:
    """Returns a pre-training, which ends with its summary."""
    corpus, size = ("smiles" if run.of_molecules else "text"), settings.size
    size = run.size if size == "paper" and run.size else size
    data, save = pretraining_data(settings, run), settings.output / run.folder
    words = ["bash", f"{SCRIPTS}/pretrain_{corpus}.sh", run.model, size, data, save]
    about = read_json(data / "prepared.json") or {}
    if corpus == "text" and about.get("kind") == "smiles":  # cuts molecules into blocks
        words += ["--sample-break-mode", "none"]
    words += [] if run.model == "mlm" else ["--k", run.k]
    words += ["--p", f"{run.p:g}", "--seed", run.seed]
    if settings.tokens_per_sample and not run.of_molecules:  # a sample of those is a molecule
        words += ["--tokens-per-sample", settings.tokens_per_sample]
    if settings.updates or run.times != 1:
        folder = CONFIGS / "pretrain" / ("smiles" if run.of_molecules else "")
        updates = settings.updates or Flags.read(folder / f"{size}.flags").whole("--max-update")
        words += ["--updates", round(run.times * updates)]
    words += [*device(settings.gpus), *shlex.split(settings.flags)]
    words += ["--lr", run.lr] if run.lr not in (DEFAULT, BEST) else []
    best = [save.parents[1] / "best.json"] if run.lr == BEST else []
    train = on_gpus(settings, settings.gpus, save / "log/pretrain.log", words, best)
    made = [] if settings.data or run.of_molecules else [data / "prepared.json"]
    return Job(
        f"{train} && python -m lib.workflow.jobs finish {shlex.quote(str(save))}", made + best, settings.gpus
    )


def measure(settings: Namespace, name: str, run: Run) -> Job:
    """Returns a measure of a pre-training, or the example."""
    save, gpus = settings.output / run.folder, min(settings.gpus, 1)
    if name == "example":
        words = [f"{SCRIPTS}/explore.py", save / LAST, settings.example, "--output", (save / EXAMPLE).parent]
    else:
        all_p = " ".join(map(str, sorted({PROBE_P, run.own_p})))
        options = MEASURES[name].format(p=run.own_p, all_p=all_p, sentences=settings.sentences).split()
        words = ["-m", "fs_plugins.measures", name, save / LAST, *options, "--output", save / MEASURED[name]]
    words = ["python", *words, "--data", pretraining_data(settings, run)]
    return Job(on_gpus(settings, gpus, save / f"log/{name}.log", words, []), [save / "train.json"], gpus)


def finetune(settings: Namespace, folder: Path) -> Job:
    """Returns a fine-tuning, or a forest."""
    place, point, seed = folder.parents[1], folder.parent.name, folder.name.removeprefix("seed-")
    (table, model, *_), task, save = place.parts, place.name, settings.output / folder
    about, log = [data_of(settings, task), save, "--seed", seed], save / "log/finetune.log"
    if model == FOREST:
        words = ["python", f"{SCRIPTS}/baseline_moleculenet.py", *about]
        return Job(on_gpus(settings, 0, log, words, []), [])
    if table == STUDY:
        start = settings.output.joinpath(*place.parts[:4], LAST)
    else:
        models = models_of(settings, targets()[table])
        start = models.get(model) or next(iter(models.values()))  # the sizes of an untrained model
    name = "glue" if task in TASKS else "squad" if task == squad.NAME else "moleculenet"
    gpus = settings.gpus if name == "squad" else min(settings.gpus, 1)
    words = ["bash", f"{SCRIPTS}/finetune_{name}.sh", *([] if name == "squad" else [task]), start, *about]
    words += device(gpus)
    if table == STUDY:
        words += points_of(task, point)[0].flags.words()
    elif table == TEXT and point != BEST:
        points = points_of(task, settings.grid, settings.point)
        words += next(one.flags.words() for one in points if one.key == point)
    elif table == MOLECULES and settings.max_epoch:
        words += ["--max-epoch", settings.max_epoch]
    words += ["--scratch"] if model == UNTRAINED else []
    if name == "glue":
        mnli = settings.init_from.get(model) if task in FROM_MNLI else None
        words += ["--drop-checkpoints", *(["--init-from", mnli] if mnli else [])]
    words += shlex.split(settings.finetune_flags) if table != STUDY else []
    best = [settings.output / place / "best.json"] if point == BEST else []
    trained = [start.with_name("train.json")] if start.is_relative_to(settings.output / STUDY) else []
    return Job(on_gpus(settings, gpus, log, words, best), trained + best, gpus)
