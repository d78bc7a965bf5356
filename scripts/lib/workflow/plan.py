"""What each target of the workflow needs, as files in OUTPUT, and the jobs that make these.

study/NAME/seed-N/{train,MEASURE}.json       a pre-training, of a row of runs.csv (:class:`Run`)
study/NAME/seed-N/glue/TASK/table6/seed-N/result.json
TABLE/MODEL/TASK/POINT/seed-N/result.json    a fine-tuning, or a forest in its place
TABLE/MODEL/TASK/best.{json,flags}           the best of the trials with the first seed

POINT is one of table 11's to try, ``best``, or the paper's table that has the only one. Folders of runs and
fine-tunings are relative to OUTPUT.
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
from lib.glue import TASKS
from lib.recipes import points_of
from lib.run.launch import LAST
from lib.workflow.runs import (
    FOREST,
    MOLECULES,
    PROBE_P,
    SETS,
    STUDY,
    TEXT,
    UNTRAINED,
    Run,
    Target,
    targets,
)

from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary

REPRODUCE = "reproduce"  # all figures and tables of the paper; STUDY is those of its study
SEEDS = {STUDY: [1, 2, 3], MOLECULES: [1, 2, 3], TEXT: [1, 2, 3, 4, 5]}  # of fine-tuning
EXAMPLE = "example/index.html"  # page of scripts/explore.py
# a rule of the Snakefile -> the file that its jobs write last
MEASURED = {"entropy": "entropy.json", "probe": "probe.json", "example": EXAMPLE}
RULES = {"pretrain": "train.json", **MEASURED, "finetune": RESULT, "best": "best.json"}
BEST = "best"  # the point of the other seeds
SCRIPTS = os.path.relpath(ROOT / "scripts")


def targets_of(name: str) -> list[Target]:
    """Returns the figures and tables that a target of the workflow stands for."""
    every = targets()
    return [every[name]] if name in every else [t for t in every.values() if name == REPRODUCE or t.of_study]


def files(settings: Namespace, name: str) -> list[Path]:
    """Returns the results that a target needs, each once. Raises UserError if a setting is missing."""
    found: list[Path] = []
    for target in targets_of(name):
        found += (_of_study if target.of_study else _of_table)(settings, target)
    return [settings.output / path for path in dict.fromkeys(found)]


def _of_study(settings: Namespace, target: Target) -> list[Path]:
    """Returns results of pre-trainings, and of their fine-tunings if GLUE is given, else of the probe."""
    tasks = target.tasks if settings.glue else []
    measures = [*target.measures, *(["probe"] if target.tasks and not tasks else [])]
    names = ["train.json", *(MEASURED[name] for name in measures)]
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
    """Returns the pre-trainings that a target reports: each row with all seeds."""
    check_given(settings, target.runs[0].corpus)
    return [replace(run, seed=seed) for run in target.runs for seed in settings.seeds]


def check_given(settings: Namespace, corpus: str) -> None:
    """Raises UserError if no data are given for a pre-training that cannot be of the quickstart's."""
    has_own = settings.size == "smoke" and not settings.glue and corpus == "text"
    if not has_own and not pretraining_data(settings, corpus):
        raise UserError(f"give data for pre-training on {corpus}: data=FOLDER, for table 1 smiles=FOLDER")


def pretraining_data(settings: Namespace, corpus: str) -> str | None:
    """Returns the data of a pre-training; None: those of the quickstart."""
    return settings.smiles if corpus == "smiles" else settings.data


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
    """Returns the results that choose PLACE/best.json: with each point of a task's grid."""
    seed = (settings.finetune_seeds or SEEDS[place.parts[0]])[0]
    points = points_of(place.name, settings.grid, settings.max_epoch)
    return [settings.output / place / point.key / f"seed-{seed}" / RESULT for point in points]


def check(settings: Namespace, name: str) -> None:
    """Raises ValueError for data or models of a target that do not exist, and for data that were prepared
    with different dictionaries: a job would find out after days of pre-training."""
    for target in targets_of(name):
        data = pretraining_data(settings, "smiles" if target.name in (MOLECULES, SETS) else "text")
        paths = [Path(data, DICT_FILE)] if data and not settings.models else []
        for task in tasks_of(settings, target):
            inner = f"{task}-bin/input0" if task in TASKS else ""
            paths.append(Path(data_of(settings, task), inner, DICT_FILE))
        for path in map(Path, (*paths, *settings.models.values())):
            if not path.exists():
                raise UserError(f"{target.name}: {path} does not exist: prepare it first, or plan with -n")
        for path in paths[1:]:
            Vocabulary.read(path).check(Vocabulary.read(paths[0]), f"prepare it with {paths[0]}")


# ---- jobs


class Job(NamedTuple):
    """A command, the files that it needs, its GPUs, and what follows it in the shell."""

    words: list
    needs: list[Path] = []
    gpus: int = 0
    then: str = ""

    @property
    def flags(self) -> str:
        """Returns more words, for the shell: the flags beside a best.json, if it needs one."""
        files = [path.with_suffix(".flags") for path in self.needs if path.name == RULES["best"]]
        return " ".join(f"$(cat {shlex.quote(str(file))})" for file in files)


def job(settings: Namespace, rule: str, folder: Path) -> Job:
    """Returns the job that makes FOLDER/FILE, by a rule of RULES."""
    if rule == "best":
        needs = trials(settings, folder)
        output = settings.output / folder / RULES[rule]
        return Job(["python", "-m", "lib.workflow.jobs", "best", output, *needs], needs)
    if rule == "finetune":
        return finetune(settings, folder)
    if rule == "pretrain":
        return pretrain(settings, Run.at(folder))
    return measure(settings, rule, Run.at(folder))


def pretrain(settings: Namespace, run: Run) -> Job:
    """Returns a pre-training."""
    check_given(settings, run.corpus)
    size = run.size if settings.size == "paper" and run.size else settings.size
    given, save = pretraining_data(settings, run.corpus), settings.output / run.folder
    data = Path(given or settings.output / "data-bin")
    words = ["bash", f"{SCRIPTS}/pretrain_{run.corpus}.sh", run.model, size, data, save]
    about = read_json(data / "prepared.json") or {}
    if run.corpus == "text" and about.get("kind") == "smiles":  # cuts molecules into blocks
        words += ["--sample-break-mode", "none"]
    words += [] if run.model == "mlm" else ["--k", run.k]
    words += ["--p", f"{run.p:g}", "--seed", run.seed]
    if settings.tokens_per_sample and run.corpus == "text":  # a sample of SMILES is a molecule
        words += ["--tokens-per-sample", settings.tokens_per_sample]
    if settings.updates or run.times != 1:
        size_file = CONFIGS / "pretrain" / f"{size}.flags"  # only text has runs of other lengths
        updates = settings.updates or Flags.read(size_file).whole("--max-update")
        words += ["--updates", round(run.times * updates)]
    words += ["--gpus", settings.gpus, *shlex.split(settings.flags)]
    needs = [] if given else [data / "prepared.json"]
    then = f"&& python -m lib.workflow.jobs finish {shlex.quote(str(save))}"
    return Job(words, needs, settings.gpus, then)


def measure(settings: Namespace, name: str, run: Run) -> Job:
    """Returns a measure of a pre-training, or the example."""
    save = settings.output / run.folder
    if name == "example":
        words = [f"{SCRIPTS}/explore.py", save / LAST, settings.example, "--output", (save / EXAMPLE).parent]
    else:
        shares = ["--mask-prob", *sorted({PROBE_P, run.own_p})] if name == "probe" else []
        words = ["-m", "fs_plugins.measures", name, save / LAST, *shares, "--output", save / MEASURED[name]]
        words += ["--max-sentences", settings.sentences]
    data = pretraining_data(settings, run.corpus) or settings.output / "data-bin"
    return Job(["python", *words, "--data", data], [save / RULES["pretrain"]], min(settings.gpus, 1))


def finetune(settings: Namespace, folder: Path) -> Job:
    """Returns a fine-tuning, or a forest."""
    place, point, seed = folder.parents[1], folder.parent.name, folder.name.removeprefix("seed-")
    (table, model, *_), task = place.parts, place.name
    about = [data_of(settings, task), settings.output / folder, "--seed", seed]
    if model == FOREST:
        return Job(["python", f"{SCRIPTS}/baseline_moleculenet.py", *about])
    if table == STUDY:
        start = settings.output.joinpath(*place.parts[:3], LAST)
    else:
        models = models_of(settings, targets()[table])
        start = next(iter(models.values())) if model == UNTRAINED else models[model]  # the sizes of the first
    name = "glue" if task in TASKS else "squad" if task == squad.NAME else "moleculenet"
    gpus = settings.gpus if name == "squad" else min(settings.gpus, 1)
    words = ["bash", f"{SCRIPTS}/finetune_{name}.sh", *([] if name == "squad" else [task]), start, *about]
    words += ["--gpus", gpus, *(["--drop-checkpoints"] if name == "glue" else [])]
    if table == STUDY:
        words += points_of(task, point)[0].flags.words()
    elif table == TEXT and point != BEST:
        points = points_of(task, settings.grid, settings.max_epoch)
        words += next(one.flags.words() for one in points if one.key == point)
    elif table == MOLECULES:
        words += ["--max-epoch", settings.max_epoch] if settings.max_epoch else []
        words += ["--scratch"] if model == UNTRAINED else []
    if table != STUDY:
        words += shlex.split(settings.finetune_flags)
    needs = [start.with_name(RULES["pretrain"])] if start.is_relative_to(settings.output / STUDY) else []
    needs += [settings.output / place / RULES["best"]] if point == BEST else []
    return Job(words, needs, gpus)
