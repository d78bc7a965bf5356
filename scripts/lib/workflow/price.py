"""What a target will take: GPU hours and disk, before anything is there; what ``snakemake -n`` begins with.

Pre-trainings are counted as ``--print`` counts them. A fine-tuning takes 6 FLOPs for each parameter and token
of the official training set. Disk is what stays: the weights of a pre-training, and of a fine-tuning, but on
GLUE, its best checkpoint with the optimizer's state.
"""

from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lib.files import RESULT
from lib.run import cost, pretraining
from lib.workflow import plan
from lib.workflow.runs import Run

from fs_plugins.huggingface.restore import open_state

CARD = "H100"
BASE = 128_255_589  # parameters of a given model that is not there yet
WEIGHTS, WITH_OPTIMIZER = 4, 12  # bytes of a parameter


def price(settings: Namespace, name: str) -> str:
    """Returns a line on a target."""
    trained = {run: _pretraining(settings, run) for run in pretrainings(settings, name)}
    sizes = {name: parameters_of(Path(path)) for name, path in settings.models.items()}
    sizes |= {run.name: parameters for run, (_, parameters) in trained.items()}
    untrained = next(iter(sizes.values()), BASE)  # is as the first
    tuned = [
        (plan.benchmark_of(settings, task), task, sizes.get(model, untrained), epochs)
        for model, task, epochs in finetunings(settings, name)
    ]
    flops = [sum(flops for flops, _ in trained.values())]
    flops.append(sum(6 * parameters * epochs * one.tokens(task) for one, task, parameters, epochs in tuned))
    hours = [cost.hours_of(one, CARD) for one in flops]
    size = sum(WEIGHTS * parameters for _, parameters in trained.values())
    size += sum(WITH_OPTIMIZER * parameters for one, _, parameters, _ in tuned if one.keeps_checkpoints)
    missing, gpus = plan.missing(settings, name), max(settings.gpus, 1)
    longest = cost.hours_of(max((flops for flops, _ in trained.values()), default=0), CARD) / gpus
    return (
        f"{name}: {len(trained)} pre-trainings, {hours[0]:,.0f} hours of an {CARD} "
        f"(the longest: {longest:,.1f} on {gpus}); {len(tuned):,} fine-tunings, {hours[1]:,.0f} hours; "
        f"{size / 1e9:,.1f} GB of checkpoints stay"
        + (f"; not there yet: {', '.join(missing)}" if missing else "")
    )


def parameters_of(model: Path) -> int:
    """Returns the parameters of a checkpoint or a folder for transformers; BASE if there is none."""
    try:
        state, _ = open_state(model)
        return sum(tensor.numel() for tensor in state["model"].values())
    except (OSError, ValueError):
        return BASE


def pretrainings(settings: Namespace, name: str) -> set[Run]:
    """Returns the pre-trainings of a target, those that choose a learning rate too."""
    found = set()
    for target in plan.targets_of(settings, name):
        if target.runs and not (target.of_benchmarks and settings.models):
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
        benchmark, tried = plan.benchmark_of(settings, task), plan.points(settings, task, point)
        flags = [one.flags for one in tried if one.key == point] or [one.flags for one in tried]
        flags = flags[0] if flags else benchmark.recipe(task)
        if model not in benchmark.baselines:
            yield model, task, settings.max_epoch or flags.whole("--max-epoch", 60)


def _pretraining(settings: Namespace, run: Run) -> tuple[float, int]:
    """Returns the FLOPs and the parameters of a pre-training."""
    words = [*plan.pretrain_command(settings, "", run)[2:], "--print"]
    training = pretraining.resolve("smiles" if run.of_molecules else "text", words, priced=False)
    about, _, samples = cost.cost_of(training.data, training.flags)
    return about.flops * samples * training.flags.whole("--max-update"), about.parameters
