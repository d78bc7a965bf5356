"""Which result files each target of the workflow needs, and the commands that make them.

OUTPUT/study/NAME/lr-RATE/seed-N/{train,MEASURE}.json   pre-trainings: NAME is a run of a table of runs
OUTPUT/study/NAME/best.json, best.flags                 the best of its learning rates
OUTPUT/TABLE/MODEL/TASK/POINT/seed-N/result.json, TASK/best.json, best.flags
OUTPUT/study/NAME/lr-RATE/seed-N/glue/TASK/table6/seed-N/result.json

MEASURE is one of scripts/workflow/targets.toml; RATE a learning rate to try, ``best`` or ``default``; TABLE
and TASK are of the benchmarks (lib/finetuning/); POINT is one of table 11's to try, ``best``, or the paper's
table that has the only one.
"""

import shlex
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lib.command_line import Flags, UserError
from lib.files import CONFIGS, read_json
from lib.finetuning.benchmark import Benchmark
from lib.finetuning.benchmarks import BENCHMARKS, TABLES
from lib.finetuning.grids import Point, points_of
from lib.workflow.runs import ABOUT, PROBE_P, Run, Target

from fs_plugins.data.vocabulary import Vocabulary

STUDY, REPRODUCE = "study", "reproduce"  # all figures and tables of the paper's study; of the paper
SEEDS = {STUDY: (1, 2, 3)} | {one.table: one.seeds for one in BENCHMARKS.values()}  # seeds of fine-tuning
MEASURES = ABOUT["measures"]
EXAMPLE = "example/index.html"  # page of scripts/explore.py


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
    files = {}  # a set that keeps its order
    for target in targets_of(settings, name):
        make = study_files if target.of_the_study or not target.of_benchmarks else finetuned_files
        files |= dict.fromkeys(make(settings, target))
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


def finetuned_files(settings: Namespace, target: Target) -> Iterator[Path]:
    """Yields the results of each model on each task of a table, and, if there is a grid, the choice of its
    best point. The table of the data sets has none: the report reads the sets themselves."""
    shown = [one for one in BENCHMARKS.values() if target.name in (one.table, one.sets_table)]
    tasks = {task: one for one in shown for task in one.tasks(settings)}
    if not tasks:
        raise UserError(f"{target.name} needs {' or '.join(one.needs for one in shown)}")
    if target.name not in TABLES:
        return
    others = [name for one in shown for name in (*one.untrained, *one.baselines)]
    for model in (*models_of(settings, target), *others):
        for task, benchmark in tasks.items():
            folder, numbers = Path(settings.output, target.name, model, task), seeds(settings, target.name)
            point = benchmark.point
            if benchmark.points(task, settings):
                point, numbers = "best", numbers[1:]
                yield folder / "best.json"
            yield from (folder / point / f"seed-{n}" / "result.json" for n in numbers)


def check_dictionaries(settings: Namespace) -> None:
    """Raises ValueError for data of fine-tunings that were prepared with another dictionary than those of the
    pre-trainings here; of data that are not there yet, the first job says so."""
    for benchmark in BENCHMARKS.values():
        data = settings.smiles if benchmark.task.reads_smiles else settings.data
        other = Path(data or "none", "dict.txt")
        for path in benchmark.dictionaries(settings) if not settings.models else ():
            if path.is_file() and other.is_file():
                Vocabulary.read(path).check(
                    Vocabulary.read(other), f"prepare it with the dictionary of {data}"
                )


def missing(settings: Namespace, name: str) -> list[str]:
    """Returns the data and the models of a target that do not exist."""
    paths = [Path(folder, "dict.txt") for folder in (settings.data, settings.smiles) if folder]
    paths += [
        Path(folder) for one in BENCHMARKS.values() for folder in dict.fromkeys(one.data(settings).values())
    ]
    if settings.glue and Path(settings.glue).is_dir():
        tasks = settings.tasks or [task for target in targets_of(settings, name) for task in target.tasks]
        paths += [Path(settings.glue, f"{task}-bin") for task in dict.fromkeys(tasks)]
    paths += map(Path, (*settings.models.values(), *settings.init_from.values()))
    return [str(path) for path in paths if not path.exists()]


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


def trials(settings: Namespace, subfolder: str) -> list[Path]:
    """Returns the results that choose SUBFOLDER/best.json: of the first seed, with each learning rate of
    a run or each point of a task's grid."""
    folder, name = Path(settings.output, subfolder), Path(subfolder).name
    if not subfolder.startswith(STUDY):
        seed = seeds(settings, Path(subfolder).parts[0])[0]
        return [folder / point.key / f"seed-{seed}/result.json" for point in points(settings, name)]
    run = run_named(settings, name)
    joint = any("joint" in settings.targets[target].measures for target in run.targets)
    runs = [replace(run, lr=f"{lr:g}", seed=settings.seeds[0]) for lr in rates_of(settings, run)]
    return [folder.parent / trial.folder / f"{'joint' if joint else 'probe'}.json" for trial in runs]


def benchmark_of(settings: Namespace, task: str) -> Benchmark:
    """Returns the benchmark that has a task."""
    return next(one for one in BENCHMARKS.values() if task in one.data(settings))


def points(settings: Namespace, task: str, point: str = "") -> list[Point]:
    """Returns the points of a task's grid; none if it has no grid. ``table6`` is one of another grid."""
    if point == "table6":
        return points_of(task, point)
    return benchmark_of(settings, task).points(task, settings)


def models_of(settings: Namespace, target: Target) -> dict[str, Path]:
    """Returns name -> checkpoint of a table of benchmarks: those given, or those of its runs' first seed."""
    if settings.models:
        return {name: Path(path) for name, path in settings.models.items()}
    runs = {run.name: run for run in reversed(runs_of(settings, target))}
    folder = Path(settings.output, STUDY)
    return {name: folder / runs[name].folder / "checkpoint_last.pt" for name in reversed(runs)}


def checkpoint_of(settings: Namespace, subfolder: str) -> Path:
    """Returns the checkpoint from which the fine-tunings in SUBFOLDER/TASK start; of an untrained model the
    one whose sizes it has."""
    group, name, *_ = Path(subfolder).parts
    if group == STUDY:
        return Path(settings.output, subfolder).parent / "checkpoint_last.pt"
    models = models_of(settings, settings.targets[group])
    return models.get(name, next(iter(models.values())))


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
    if corpus == "text" and about.get("kind") == "smiles":  # cuts molecules into blocks
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


def finetune_inputs(settings: Namespace, subfolder: str, task: str, point: str) -> dict[str, Path]:
    """Returns what has to be finished before: the pre-training, and the choice of the best point."""
    inputs = {"best": Path(settings.output, subfolder, task, "best.flags")} if point == "best" else {}
    given = settings.models and not subfolder.startswith(STUDY)
    if given or Path(subfolder).name in benchmark_of(settings, task).baselines:
        return inputs
    return {**inputs, "train": checkpoint_of(settings, subfolder).with_name("train.json")}


def finetune_gpus(settings: Namespace, subfolder: str, task: str) -> int:
    """Returns the GPUs of a fine-tuning; a baseline has none."""
    benchmark = benchmark_of(settings, task)
    if Path(subfolder).name in benchmark.baselines:
        return 0
    return settings.gpus if benchmark.several_gpus else min(settings.gpus, 1)


def finetune_command(
    settings: Namespace, scripts: str, subfolder: str, task: str, point: str, seed: str
) -> list:
    """Returns the command of a fine-tuning or a baseline in SUBFOLDER/TASK/POINT/seed-SEED, but for the best
    point's flags."""
    name, save = Path(subfolder).name, str(Path(settings.output, subfolder, task, point, f"seed-{seed}"))
    benchmark, gpus = benchmark_of(settings, task), finetune_gpus(settings, subfolder, task)
    data = benchmark.data(settings)[task]
    if name in benchmark.baselines:
        return ["python", f"{scripts}/{benchmark.baselines[name]}", data, save, "--seed", seed]
    words = [f"{scripts}/finetune_{benchmark.name}.sh", *([task] if benchmark.argument else [])]
    words += [str(checkpoint_of(settings, subfolder)), data, save, *benchmark.options(settings, name, task)]
    tried = points(settings, task, point)
    if settings.max_epoch and not tried:
        words += ["--max-epoch", str(settings.max_epoch)]
    words += next((one.flags.words() for one in tried if point in ("table6", one.key)), [])
    words += ["--seed", seed, *(["--gpus", str(gpus)] if gpus else ["--cpu"])]
    return ["bash", *words, *([] if subfolder.startswith(STUDY) else shlex.split(settings.finetune_flags))]
