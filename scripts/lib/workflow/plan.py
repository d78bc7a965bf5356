"""The jobs that each target of the workflow needs, and the commands that do them.

OUTPUT/study/NAME/lr-RATE/seed-N/{train,MEASURE}.json   pre-trainings: NAME is a run of a table of runs
OUTPUT/study/NAME/best.json, best.flags                 the best of its learning rates
OUTPUT/TABLE/MODEL/TASK/POINT/seed-N/result.json, TASK/best.json, best.flags
OUTPUT/study/NAME/lr-RATE/seed-N/glue/TASK/table6/seed-N/result.json

MEASURE is one of scripts/workflow/targets.toml; RATE a learning rate to try, ``best`` or ``default``; TABLE
and TASK are of the benchmarks; POINT is one of table 11's to try, ``best``, or the paper's
table that has the only one. A :class:`Run` or a :class:`Tuning` knows its folder, so no path is read back.
"""

import itertools
import shlex
from argparse import Namespace
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from lib.command_line import Flags, UserError
from lib.files import CONFIGS, RESULT, read_json
from lib.recipes import points_of
from lib.run.launch import LAST
from lib.workflow.benchmarks import BENCHMARKS, TABLES, Benchmark
from lib.workflow.runs import ABOUT, BEST, DEFAULT, PROBE_P, STUDY, Run, Target

from fs_plugins.data.vocabulary import Vocabulary

REPRODUCE = "reproduce"  # all figures and tables of the paper; STUDY is those of its study
SEEDS = {STUDY: (1, 2, 3)} | {one.table: one.seeds for one in BENCHMARKS.values()}  # seeds of fine-tuning
MEASURES = ABOUT["measures"]
EXAMPLE = "example/index.html"  # page of scripts/explore.py
RESULTS = {measure: f"{measure}.json" for measure in MEASURES} | {"example": EXAMPLE}


@dataclass(frozen=True)
class Tuning:
    """A fine-tuning, or a baseline in its place."""

    place: Path  # folder of its model and task in OUTPUT
    point: str  # name of its hyper-parameters
    seed: int
    benchmark: Benchmark
    # its pre-training, or a checkpoint; of an untrained model those whose sizes it has; None: a baseline
    start: Run | Path | None
    flags: Flags  # hyper-parameters; of the best point, which is not known yet, the first's
    options: list[str]  # further words of its command

    @property
    def folder(self) -> Path:
        return self.place / self.point / f"seed-{self.seed}"

    @property
    def task(self) -> str:
        return self.place.name

    @property
    def model(self) -> str:
        return self.place.parts[1]

    @property
    def best(self) -> Path | None:
        """Returns the flags of the best point of the task's grid, if it is to be trained with those."""
        return self.place / "best.flags" if self.point == BEST else None

    @property
    def trained(self) -> Path | None:
        """Returns the result of its pre-training; None if its model is given, or it has none."""
        return self.start.folder / "train.json" if isinstance(self.start, Run) else None


def targets_of(settings: Namespace, name: str) -> list[Target]:
    """Returns the figures and tables that a target of the workflow stands for."""
    every = settings.targets.values()
    if name in (STUDY, REPRODUCE):
        return [t for t in every if name == REPRODUCE or not t.of_benchmarks]
    return [settings.targets[name]]


class Jobs:
    """What a target of the workflow needs; without a name, every target that has its data. Raises
    ValueError if a setting is missing, ``only`` leaves none, or dictionaries differ.

    Attributes, in which paths are below OUTPUT:
        runs, tunings: folder -> pre-training, fine-tuning.
        trials: folder of best.json -> the results that choose, of the first seed: with each learning rate
            of a run, or each point of a task's grid.
        files: the results that the target needs; a set that keeps its order.
    """

    def __init__(self, settings: Namespace, name: str | None = None):
        self.settings = settings
        self.runs: dict[Path, Run] = {}
        self.tunings: dict[Path, Tuning] = {}
        self.trials: dict[Path, list[Path]] = {}
        self.files: dict[Path, None] = {}
        if name:
            check_dictionaries(settings)
        for target in targets_of(settings, name) if name else settings.targets.values():
            with suppress(*() if name else (UserError,)):
                tunings = self._of_table(target) if target.of_benchmarks else self._of_study(target)
                self.tunings |= {tuning.folder: tuning for tuning in tunings}
        self.files |= {folder / RESULT: None for folder in self.tunings}

    def _seeds(self, table: str) -> list[int]:
        return self.settings.finetune_seeds or list(SEEDS[table])

    def _runs_of(self, target: Target) -> list[Run]:
        """Adds the pre-trainings of a target, and those that choose a rate; returns those it reports."""
        settings, reported = self.settings, []
        only = {name: value for name, value in settings.only.items() if name not in settings.point}
        rows = [run for run in target.runs if all(getattr(run, name) == only[name] for name in only)]
        if not rows:
            raise UserError(f"only={only} leaves no run of {target.name}: see scripts/workflow/runs.csv")
        for run in rows:
            if not data_of(settings, run) and (settings.size != "smoke" or settings.glue or run.of_molecules):
                data = "smiles" if run.of_molecules else "data"
                raise UserError(f"{target.name} needs {data}=FOLDER, data for pre-training")
            first, *others = settings.seeds
            trials = [replace(run, lr=f"{lr:g}", seed=first) for lr in settings.rates]
            if trials:
                self.trials[run.place] = [trial.folder / "probe.json" for trial in trials]
            lr, numbers = (BEST, others) if trials else (DEFAULT, settings.seeds)
            runs = [replace(run, lr=lr, seed=n) for n in numbers]
            self.runs |= {one.folder: one for one in (*trials, *runs)}
            reported += runs
        return reported

    def _of_study(self, target: Target) -> Iterator[Tuning]:
        """Adds results of pre-trainings; yields their fine-tunings if GLUE is given, else adds the probe."""
        glue = self.settings.glue and BENCHMARKS["glue"]
        measures = {*target.measures} | ({"probe"} if target.tasks and not glue else set())
        for run in self._runs_of(target):
            names = ["train.json", *(RESULTS[name] for name in RESULTS if name in measures)]
            self.files |= {run.folder / name: None for name in names}
            for task in target.tasks if glue else ():
                [point] = points_of(task, "table6")
                place, options = run.folder / "glue" / task, glue.options(self.settings, "", task)
                for n in self._seeds(STUDY):
                    yield Tuning(place, "table6", n, glue, run, point.flags, options)

    def _of_table(self, target: Target) -> Iterator[Tuning]:
        """Yields the fine-tunings of each model on each task of a table, and, if there is a grid, adds the
        choice of its best point. The table of the data sets has none: the report reads the sets."""
        settings = self.settings
        shown = [one for one in BENCHMARKS.values() if target.name in (one.table, one.sets_table)]
        tasks = {task: one for one in shown for task in one.tasks(settings)}
        if not tasks:
            raise UserError(f"{target.name} needs {' or '.join(one.needs for one in shown)}")
        if target.name not in TABLES:
            return
        models: dict[str, Run | Path] = {name: Path(path) for name, path in settings.models.items()}
        for run in self._runs_of(target) if not models else ():
            models.setdefault(run.name, run)  # of the first seed
        others = {name: next(iter(models.values())) for one in shown for name in one.untrained}
        others |= {name: None for one in shown for name in one.baselines}
        for (model, start), (task, one) in itertools.product((models | others).items(), tasks.items()):
            place, (first, *rest) = Path(target.name, model, task), self._seeds(target.name)
            options = [*one.options(settings, model, task), *shlex.split(settings.finetune_flags)]
            flags = Flags({"--max-epoch": (str(settings.max_epoch),)} if settings.max_epoch else {})
            tuning = Tuning(place, one.point, first, one, start, flags, options)
            if not (points := one.points(task, settings)):
                yield from (tuning, *(replace(tuning, seed=n) for n in rest))
                continue
            trials = [replace(tuning, point=point.key, flags=point.flags) for point in points]
            self.trials[place] = [trial.folder / RESULT for trial in trials]
            self.files[place / "best.json"] = None
            yield from (*trials, *(replace(trials[0], point=BEST, seed=n) for n in rest))


def check_dictionaries(settings: Namespace) -> None:
    """Raises ValueError for data of fine-tunings that were prepared with another dictionary than those of the
    pre-trainings here; of data that are not there yet, the first job says so."""
    for benchmark in BENCHMARKS.values():
        data = settings.smiles if benchmark.reads_smiles else settings.data
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


def data_of(settings: Namespace, run: Run) -> str | None:
    """Returns the pre-training data of a run; None: the quickstart's corpus."""
    return settings.smiles if run.of_molecules else settings.data


def measure_command(settings: Namespace, scripts: str, measure: str, run: Run) -> str:
    """Returns what Python is to run for a measure, quoted for the shell."""
    folder = shlex.quote(f"{settings.output}/{run.folder}")
    data = shlex.quote(data_of(settings, run) or f"{settings.output}/data-bin")
    if measure == "example":
        words = [f"{scripts}/explore.py", f"{settings.output}/{run.folder}/{LAST}", settings.example]
        return f"{shlex.join(words)} --data {data} --output {folder}/{Path(EXAMPLE).parent}"
    options, all_p = MEASURES[measure], " ".join(map(str, sorted({PROBE_P, run.own_p})))
    options = options.format(p=run.own_p, all_p=all_p, sentences=settings.sentences)
    words = f"-m fs_plugins.measures {measure} {folder}/{LAST}"
    return f"{words} {options} --data {data} --output {folder}/{RESULTS[measure]}"


def pretrain_command(settings: Namespace, scripts: str, run: Run) -> list[str]:
    """Returns the command of a pre-training, but for the best learning rate."""
    corpus, size = ("smiles" if run.of_molecules else "text"), settings.size
    size = run.size if size == "paper" and run.size else size
    data, save = data_of(settings, run) or f"{settings.output}/data-bin", f"{settings.output}/{run.folder}"
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
    words += [*device(settings.gpus), *shlex.split(settings.flags)]
    return [*words, *(["--lr", run.lr] if run.lr not in (DEFAULT, BEST) else [])]


def device(gpus: int) -> list[str]:
    """Returns the option of a training on so many GPUs."""
    return ["--gpus", str(gpus)] if gpus else ["--cpu"]


def gpus_of(settings: Namespace, tuning: Tuning) -> int:
    """Returns the GPUs of a fine-tuning; a baseline has none."""
    if not tuning.start:
        return 0
    return settings.gpus if tuning.benchmark.several_gpus else min(settings.gpus, 1)


def finetune_command(settings: Namespace, scripts: str, tuning: Tuning) -> list[str]:
    """Returns the command of a fine-tuning or a baseline, but for the best point's flags."""
    one, save, seed = tuning.benchmark, f"{settings.output}/{tuning.folder}", ["--seed", str(tuning.seed)]
    data = one.data(settings)[tuning.task]
    if not tuning.start:
        return ["python", f"{scripts}/{one.baselines[tuning.model]}", data, save, *seed]
    words = [f"{scripts}/finetune_{one.name}.sh", *([tuning.task] if one.argument else [])]
    start = tuning.start
    start = Path(settings.output, start.folder, LAST) if isinstance(start, Run) else start
    words += [str(start), data, save, *([] if tuning.best else tuning.flags.words()), *seed]
    return ["bash", *words, *device(gpus_of(settings, tuning)), *tuning.options]
