"""Which result files each target of the workflow needs, and the commands that make them.

OUTPUT/study/NAME/lr-RATE/seed-N/{train,MEASURE}.json   pre-trainings: NAME is a run of a table of runs
OUTPUT/study/NAME/best.json, best.flags                 the best of its learning rates
OUTPUT/{table1,table3}/MODEL/TASK/POINT/seed-N/result.json, TASK/best.json, best.flags
OUTPUT/study/NAME/lr-RATE/seed-N/glue/TASK/table6/seed-N/result.json

MEASURE is one of scripts/workflow/targets.toml; RATE a learning rate to try, ``best`` or ``default``; TASK
one of GLUE, ``squad2``, or a set of MoleculeNet; POINT one of table 11's to try, ``best``, or the paper's
table that has the only one.
"""

import shlex
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lib.command_line import Flags, UserError
from lib.files import CONFIGS, read_json
from lib.finetuning.glue.tasks import FROM_MNLI, TASKS, Point, points_of
from lib.workflow.runs import ABOUT, PROBE_P, Run, Target

from fs_plugins.data.vocabulary import Vocabulary

STUDY, REPRODUCE = "study", "reproduce"  # all figures and tables of the paper's study; of the paper
SEEDS = {STUDY: (1, 2, 3), "table3": (1, 2, 3, 4, 5), "table1": (1, 2, 3)}  # the paper's, of fine-tuning
MEASURES = ABOUT["measures"]
SQUAD, UNTRAINED, FOREST = "squad2", "untrained", "forest"
EXAMPLE = "example/index.html"  # of scripts/explore.py


def targets_of(settings: Namespace, name: str) -> list[Target]:
    """Returns the figures, tables and comparisons that a target of the workflow stands for."""
    every = settings.targets.values()
    if name in (STUDY, REPRODUCE):
        return [t for t in every if t.of_the_paper and (t.of_the_study or name == REPRODUCE)]
    return [settings.targets[name]]


def files_of(settings: Namespace, name: str) -> list[Path]:
    """Returns the results that a target of the workflow needs. Raises ValueError if a setting is missing,
    ``only`` leaves none, or dictionaries differ."""
    check_dictionaries(settings)
    files = {}  # in order
    for target in targets_of(settings, name):
        makers = {"table1": table1_files, "table3": table3_files, "table9": table9_files}
        files |= dict.fromkeys(makers.get(target.name, study_files)(settings, target))
    return list(files)


def study_files(settings: Namespace, target: Target) -> Iterator[Path]:
    """Yields the results of pre-trainings, and of fine-tunings if GLUE is given, else the probe's."""
    tasks, measures = target.tasks if settings.glue else (), {*target.measures}
    measures |= {"probe"} if target.tasks and not settings.glue else set()
    for run in runs_of(settings, target):
        folder = Path(settings.output, STUDY, run.folder)
        made = {"train", *measures} - (set() if run.has_paths else {"states"})
        yield from (folder / f"{name}.json" for name in ("train", *MEASURES) if name in made)
        if "example" in measures:
            yield folder / EXAMPLE
        for task in tasks:
            yield from (folder / f"glue/{task}/table6/seed-{n}/result.json" for n in seeds(settings, STUDY))


def table3_files(settings: Namespace, target: Target) -> Iterator[Path]:
    """Yields the choice of each task's best point, and its results with the other seeds."""
    folder = Path(settings.glue) if settings.glue else None
    planned = folder and not folder.is_dir()  # of a folder that is not there yet all tasks
    prepared = [name for name in TASKS if planned or (folder and Path(folder, f"{name}-bin").is_dir())]
    tasks = [*(settings.tasks or prepared), *([SQUAD] if settings.squad else [])]
    if not tasks:
        raise UserError("table3 needs glue=FOLDER with a TASK-bin, of prepare_glue.py, or squad=FOLDER")
    for model in models_of(settings, target):
        for task in tasks:
            folder = Path(settings.output, "table3", model, task)
            yield folder / "best.json"
            yield from (folder / f"best/seed-{n}/result.json" for n in seeds(settings, "table3")[1:])


def table1_files(settings: Namespace, target: Target) -> Iterator[Path]:
    """Yields the results of each model on each set, of an untrained one and of a forest."""
    table9_files(settings, target)
    for model in (*models_of(settings, target), UNTRAINED, FOREST):
        for data in settings.moleculenet:
            folder = Path(settings.output, "table1", model, data, "table8")
            yield from (folder / f"seed-{n}/result.json" for n in seeds(settings, "table1"))


def table9_files(settings: Namespace, target: Target) -> list[Path]:
    """Returns none: the report reads the sets themselves."""
    if not settings.moleculenet:
        raise UserError(f"{target.name} needs moleculenet=SET=FOLDER,..., made by prepare_moleculenet.py")
    return []


def check_dictionaries(settings: Namespace) -> None:
    """Raises ValueError for data of fine-tunings that were prepared with another dictionary than those of the
    pre-trainings here; of data that are not there yet, the first job says so."""
    fine = [(path, settings.data) for path in Path(settings.glue or "none").glob("*-bin/input0/dict.txt")]
    fine += [(Path(folder, "dict.txt"), settings.smiles) for folder in settings.moleculenet.values()]
    fine += [(Path(settings.squad or "none", "dict.txt"), settings.data)]
    for path, data in fine:
        other = Path(data or "none", "dict.txt")
        if path.is_file() and other.is_file() and not settings.models:
            Vocabulary.read(path).check(Vocabulary.read(other), f"prepare it with the dictionary of {data}")


def seeds(settings: Namespace, table: str) -> tuple[int, ...]:
    """Returns the seeds of fine-tuning, for a table of SEEDS."""
    return tuple(settings.finetune_seeds or SEEDS[table])


def runs_of(settings: Namespace, target: Target) -> list[Run]:
    """Returns the pre-trainings that a figure, table or comparison reports. Raises UserError if ``only``
    leaves none, or a size other than smoke has no data."""
    only = {name: value for name, value in settings.only.items() if name not in settings.point}
    rows = [run for run in target.runs if all(getattr(run, name) == only[name] for name in only)]
    if not rows:
        raise UserError(f"only={only} leaves no run of {target.name}: see scripts/workflow/runs.csv")
    pretrainings = []
    for run in rows:
        if not data_of(settings, run) and (settings.size != "smoke" or settings.glue or run.of_molecules):
            data = "smiles" if run.of_molecules else "data"
            raise UserError(f"{target.name} needs {data}=FOLDER, data for pre-training")
        lr, reported = "default", settings.seeds
        if rates_of(settings, run):
            lr, reported = "best", settings.seeds[1:]
        pretrainings += [replace(run, lr=lr, seed=seed) for seed in reported]
    return pretrainings


def data_of(settings: Namespace, run: Run) -> str | None:
    """Returns the pre-training data of a run; None: the quickstart's corpus."""
    return settings.smiles if run.of_molecules else settings.data


def rates_of(settings: Namespace, run: Run) -> tuple[float, ...]:
    """Returns the learning rates to try, if any are; none: the size's is used."""
    return tuple(run.rates or settings.rates) if settings.rates else ()


def run_named(settings: Namespace, name: str) -> Run:
    """Returns a row of a table of runs."""
    return next(run for target in settings.targets.values() for run in target.runs if run.name == name)


def trials(settings: Namespace, place: str) -> list[Path]:
    """Returns the results that choose OUTPUT/PLACE/best.json: of the first seed, with each learning rate of a
    run or each point of a task's grid."""
    folder, name = Path(settings.output, place), Path(place).name
    if not place.startswith(STUDY):
        seed = seeds(settings, "table3")[0]
        return [folder / point.key / f"seed-{seed}/result.json" for point in grid(settings, name)]
    run = run_named(settings, name)
    joint = any("joint" in settings.targets[target].measures for target in run.targets)
    runs = [replace(run, lr=f"{lr:g}", seed=settings.seeds[0]) for lr in rates_of(settings, run)]
    return [folder.parent / trial.folder / f"{'joint' if joint else 'probe'}.json" for trial in runs]


def grid(settings: Namespace, task: str) -> list[Point]:
    """Returns the points of a task in table 3; none of a set of MoleculeNet."""
    return [] if task in settings.moleculenet else points_of(task, settings.grid, settings.point)


def models_of(settings: Namespace, target: Target) -> dict[str, Path]:
    """Returns name -> checkpoint of table 1 or 3: those given, or those of its runs' first seed."""
    if settings.models:
        return {name: Path(path) for name, path in settings.models.items()}
    runs = {run.name: run for run in reversed(runs_of(settings, target))}
    folder = Path(settings.output, STUDY)
    return {name: folder / runs[name].folder / "checkpoint_last.pt" for name in reversed(runs)}


def checkpoint_of(settings: Namespace, place: str) -> Path:
    """Returns the checkpoint from which the fine-tunings in OUTPUT/PLACE/TASK start; of ``untrained`` the one
    whose sizes it has."""
    group, name, *_ = Path(place).parts
    if group == STUDY:
        return Path(settings.output, place).parent / "checkpoint_last.pt"
    models = models_of(settings, settings.targets[group])
    return next(iter(models.values())) if name == UNTRAINED else models[name]


def measure_command(settings: Namespace, measure: str, run: Run) -> str:
    """Returns the command of a measure but for its data and output; --mask-prob takes all that follows it."""
    about, folder = MEASURES[measure], Path(settings.output, STUDY, run.folder)
    checkpoints = f"{shlex.quote(str(folder))}/{about.get('checkpoints', 'checkpoint_last.pt')}"
    all_p = " ".join(map(str, sorted({PROBE_P, run.own_p})))
    options = about["options"].format(p=run.own_p, all_p=all_p, sentences=settings.sentences)
    return f"fs_plugins.measures {about['command']} {checkpoints} {options}"


def pretrain_command(settings: Namespace, scripts: str, run: Run) -> list[str]:
    """Returns the command of a pre-training, but for the best learning rate; its row's options come last."""
    corpus, size = ("smiles" if run.of_molecules else "text"), settings.size
    size = run.size if size == "paper" and run.size else size
    data = data_of(settings, run) or f"{settings.output}/data-bin"
    save = str(Path(settings.output, STUDY, run.folder))
    words = ["bash", f"{scripts}/pretrain_{corpus}.sh", run.model, size, data, save]
    about = read_json(Path(data, "prepared.json")) or {}
    if corpus == "text" and about.get("kind") == "smiles":  # in blocks
        words += ["--sample-break-mode", "none"]
    words += [] if run.model == "mlm" else ["--k", str(run.k)]
    words += ["--p", f"{run.p:g}", "--seed", str(run.seed)]
    if settings.tokens_per_sample and not run.of_molecules:  # a sample of those is a molecule
        words += ["--tokens-per-sample", str(settings.tokens_per_sample)]
    if settings.updates or run.times != 1:
        folder = CONFIGS / "pretrain" / ("smiles" if run.of_molecules else "")
        updates = settings.updates or Flags.read(folder / f"{size}.flags").whole("--max-update")
        words += ["--updates", str(round(run.times * updates))]
    words += ["--gpus", str(settings.gpus)] if settings.gpus else ["--cpu"]
    words += shlex.split(settings.flags)
    return [*words, *(["--lr", run.lr] if run.lr not in ("default", "best") else []), *run.flags]


def finetune_inputs(settings: Namespace, place: str, task: str, point: str) -> dict[str, Path]:
    """Returns what has to be finished before: the pre-training, and the choice of the best point."""
    inputs = {"best": Path(settings.output, place, task, "best.flags")} if point == "best" else {}
    if Path(place).name == FOREST or not place.startswith(STUDY) and settings.models:
        return inputs
    return {**inputs, "train": checkpoint_of(settings, place).with_name("train.json")}


def finetune_gpus(settings: Namespace, place: str, task: str) -> int:
    """Returns the GPUs of a fine-tuning: SQuAD trains on several, a forest on none."""
    return settings.gpus if task == SQUAD else min(settings.gpus, 1) if Path(place).name != FOREST else 0


def finetune_command(settings: Namespace, scripts: str, place: str, task: str, point: str, seed: str) -> list:
    """Returns the command of a fine-tuning or a forest in OUTPUT/PLACE/TASK/POINT/seed-SEED, but for the best
    point's flags."""
    name, save = Path(place).name, str(Path(settings.output, place, task, point, f"seed-{seed}"))
    if name == FOREST:
        words = f"{scripts}/baseline_moleculenet.py", settings.moleculenet[task], save
        return ["python", *words, "--seed", seed]
    checkpoint, gpus = str(checkpoint_of(settings, place)), finetune_gpus(settings, place, task)
    if task in settings.moleculenet:
        words = [f"{scripts}/finetune_moleculenet.sh", task, checkpoint, settings.moleculenet[task], save]
        words += ["--scratch"] if name == UNTRAINED else []
        words += ["--max-epoch", str(settings.max_epoch)] if settings.max_epoch else []
    elif task == SQUAD:
        words = [f"{scripts}/finetune_squad.sh", checkpoint, settings.squad, save]
    else:
        words = [f"{scripts}/finetune_glue.sh", task, checkpoint, settings.glue, save, "--drop-checkpoints"]
        start = settings.init_from.get(name) if task in FROM_MNLI else None
        words += ["--init-from", start] if start else []
    points = points_of(task, "table6") if point == "table6" else grid(settings, task)
    words += next((tried.flags.words() for tried in points if point in ("table6", tried.key)), [])
    words += ["--seed", seed, *(["--gpus", str(gpus)] if gpus else ["--cpu"])]
    return ["bash", *words, *([] if place.startswith(STUDY) else shlex.split(settings.finetune_flags))]
