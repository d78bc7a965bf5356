"""What a target will take: GPU hours and disk, before anything is there; what ``snakemake -n`` begins with.

Pre-trainings are counted as ``--print`` counts them. A fine-tuning takes 6 FLOPs for each parameter and token
of the official training set. Disk is what stays: the weights of a pre-training, and of a fine-tuning on SQuAD
or MoleculeNet its best checkpoint with the optimizer's state.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lib.command_line import Flags
from lib.files import CONFIGS, RESULT
from lib.finetuning.glue.tasks import TASKS, points_of
from lib.run import cost, pretraining
from lib.workflow import plan
from lib.workflow.runs import Run

CARD = "H100"
# rows of training, and tokens of each
SQUAD, MOLECULES, GLUE_TOKENS = (130_319, 384), (10_000, cost.MOLECULE), 64
BASE = 128_255_589  # parameters where models are given
WEIGHTS, WITH_OPTIMIZER = 4, 12  # bytes of a parameter


def price(settings: Namespace, name: str) -> str:
    """Returns a line on a target."""
    trained = {run: _pretraining(settings, run) for run in pretrainings(settings, name)}
    sizes = {run.name: parameters for run, (_, parameters) in trained.items()}
    tuned = [(task, sizes.get(model, BASE), epochs) for model, task, epochs in finetunings(settings, name)]
    flops = [sum(flops for flops, _ in trained.values())]
    flops.append(sum(6 * parameters * epochs * _tokens(settings, task) for task, parameters, epochs in tuned))
    hours = [cost.hours_of(one, CARD) for one in flops]
    size = sum(WEIGHTS * parameters for _, parameters in trained.values())
    size += sum(WITH_OPTIMIZER * parameters for task, parameters, _ in tuned if task not in TASKS)
    given = (settings.data, settings.smiles, settings.glue, settings.squad, *settings.moleculenet.values())
    missing = [path for path in given if path and not Path(path).exists()]
    return (
        f"{name}: {len(trained)} pre-trainings, {hours[0]:,.0f} hours of an {CARD}; {len(tuned):,} "
        f"fine-tunings, {hours[1]:,.0f} hours; {size / 1e9:,.0f} GB of checkpoints stay"
        + (f"; not there yet: {', '.join(missing)}" if missing else "")
    )


def pretrainings(settings: Namespace, name: str) -> set[Run]:
    """Returns the pre-trainings of a target, those that choose a learning rate too."""
    found = set()
    for target in plan.targets_of(settings, name):
        if target.runs and not (target.name in ("table1", "table3") and settings.models):
            for run in plan.runs_of(settings, target):
                rates = plan.rates_of(settings, run)
                found |= {run, *(replace(run, lr=f"{lr:g}", seed=settings.seeds[0]) for lr in rates)}
    return found


def finetunings(settings: Namespace, name: str) -> Iterator[tuple[str, str, int]]:
    """Yields the model, the task and the epochs of each fine-tuning of a target."""
    output, files = Path(settings.output), plan.files_of(settings, name)
    for best in [path for path in files if path.name == "best.json"]:
        files += plan.trials(settings, str(best.parent.relative_to(output)))
    for path in (path.relative_to(output) for path in dict.fromkeys(files) if path.name == RESULT):
        model, task, point = path.parts[1], *path.parts[-4:-2]
        recipe = [CONFIGS / "finetune" / "table8.flags", CONFIGS / "finetune" / "table8" / f"{task}.flags"]
        if task in settings.moleculenet:
            flags = [Flags.read(file) for file in recipe if file.is_file()][-1:]
        else:
            points = points_of(task, "table6") if point == "table6" else plan.grid(settings, task)
            flags = [one.flags for one in points if one.key == point] or [points[0].flags]
        if model != plan.FOREST:
            yield model, task, settings.max_epoch or flags[0].whole("--max-epoch", 60)


def _pretraining(settings: Namespace, run: Run) -> tuple[float, int]:
    """Returns the FLOPs and the parameters of a pre-training."""
    words = [*plan.pretrain_command(settings, "", run)[2:], "--print"]
    training = pretraining.resolve("smiles" if run.of_molecules else "text", words)
    about, _, samples = cost.cost_of(training.data, training.flags)
    return about.flops * samples * training.flags.whole("--max-update"), about.parameters


def _tokens(settings: Namespace, task: str) -> int:
    """Returns the tokens of an epoch."""
    if task in TASKS:
        return TASKS[task].official["train"] * GLUE_TOKENS
    rows, tokens = SQUAD if task == plan.SQUAD else MOLECULES
    return rows * tokens
