"""What a target will take: GPU hours and disk, before anything is there; what ``snakemake -n`` begins with.

Pre-trainings are counted as ``--print`` counts them. A fine-tuning takes 6 FLOPs for each parameter and token
of the official training set. Disk is what stays: the weights of a pre-training, and of a fine-tuning, but on
GLUE, its best checkpoint with the optimizer's state.
"""

from argparse import Namespace
from pathlib import Path

from lib.command_line import counted
from lib.run import cost, pretraining
from lib.workflow import plan
from lib.workflow.plan import Tuning
from lib.workflow.runs import Run

from fs_plugins.checkpoint import read_state

CARD = "H100"
BASE = 128_255_589  # parameters of a given model that is not there yet
WEIGHTS, WITH_OPTIMIZER = 4, 12  # bytes of a parameter


def price(settings: Namespace, name: str) -> str:
    """Returns a line on a target."""
    jobs = plan.Jobs(settings, name)
    trained = {run: _pretraining(settings, run) for run in jobs.runs.values()}
    sizes = {name: parameters_of(Path(path)) for name, path in settings.models.items()}
    sizes |= {run.name: parameters for run, (_, parameters) in trained.items()}
    untrained = next(iter(sizes.values()), BASE)  # is as the first
    tuned = [(one, sizes.get(one.model, untrained)) for one in jobs.tunings.values() if one.start]
    flops = [sum(flops for flops, _ in trained.values())]
    flops.append(sum(_finetuning(one) * parameters for one, parameters in tuned))
    hours = [cost.hours_of(one, CARD) for one in flops]
    size = sum(WEIGHTS * parameters for _, parameters in trained.values())
    size += sum(WITH_OPTIMIZER * parameters for one, parameters in tuned if one.benchmark.keeps_checkpoints)
    missing, gpus = plan.missing(settings, name), max(settings.gpus, 1)
    longest = cost.hours_of(max((flops for flops, _ in trained.values()), default=0), CARD) / gpus
    return (
        f"{name}: {counted(len(trained), 'pre-training')}, {hours[0]:,.0f} hours of an {CARD} "
        f"(the longest: {longest:,.1f} on {gpus}); {counted(len(tuned), 'fine-tuning')}, "
        f"{hours[1]:,.0f} hours; {size / 1e9:,.1f} GB of checkpoints stay"
        + (f"; not there yet: {', '.join(missing)}" if missing else "")
    )


def parameters_of(model: Path) -> int:
    """Returns the parameters of a checkpoint or a folder for transformers; BASE if there is none."""
    try:
        state, _ = read_state(model)
        return sum(tensor.numel() for tensor in state["model"].values())
    except (OSError, ValueError):
        return BASE


def _pretraining(settings: Namespace, run: Run) -> tuple[float, int]:
    """Returns the FLOPs and the parameters of a pre-training."""
    words = plan.pretrain_command(settings, "", run)[2:]
    training = pretraining.settle("smiles" if run.of_molecules else "text", words)
    about, _, samples = cost.cost_of(training.data, training.flags)
    return about.flops * samples * training.flags.whole("--max-update"), about.parameters


def _finetuning(one: Tuning) -> float:
    """Returns the FLOPs of a fine-tuning for each parameter."""
    flags = one.flags or one.benchmark.recipe(one.task)
    return 6 * flags.whole("--max-epoch", 60) * one.benchmark.tokens(one.task)
