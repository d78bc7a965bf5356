"""What the plans of fine-tunings share: the command line, positions, the schedule, the inputs."""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

from recipes import folders
from recipes.checkpoints import Pretrained
from recipes.command_line import RecipeError, argument_parser, count
from recipes.files import sha256
from recipes.flags import Flags
from recipes.plan.batches import divide
from recipes.plan.devices import Devices, add_device_arguments
from recipes.plan.plan import Plan

OWN = ("--seed", "--save-dir", "--restore-file", "--finetune-from-model")
OTHER_BATCH = ("--max-sentences", "--max-tokens")  # beside which --batch-size and the schedule would not hold
SHORTER = (  # a resumed pre-training may change these; a fine-tuning with them is another one
    *("--max-update", "--total-num-update", "--warmup-updates", "--stop-time-hours"),
    *("--disable-validation", "--max-valid-steps", "--no-save"),
)
LONGEST = 512  # tokens that every model reads at least, however short the samples of its pre-training were
HELP = """\
{what}

{details}
  CHECKPOINT  of a pre-training: ExLM, one of its ablations, or the MLM; its architecture is read from it
  DATA        a folder made by {maker}
  SAVE        the folder of this run: log, checkpoints while it trains, results

If interrupted, rerun the same command to resume. A SAVE that holds a run of other settings, data or
weights is refused (SAVE/made_of.json). Further options are passed to fairseq-train and override
configs/{configs}:

  --lr X --batch-size N --max-epoch N --warmup-ratio R

--batch-size is that of an update, {batch}; --warmup-ratio is the share of all updates."""


@dataclass
class Request:
    """A fine-tuning as it was asked for."""

    args: argparse.Namespace
    user: Flags
    devices: Devices


def finetuning_parser(
    program: str, first: str, one_worker: bool = False, **about: str
) -> argparse.ArgumentParser:
    """The options of every fine-tuning.

    Args:
        first: the positional argument before CHECKPOINT, DATA and SAVE, or "".
        one_worker: whether the training runs in one process, on one GPU if there is any.
        about: what, details, maker, configs and batch of the help text.
    """
    names = [*([first] if first else []), "checkpoint", "data", "save"]
    usage = f"%(prog)s {' '.join(names).upper()} [options] [fairseq-train's flags]"
    parser = argument_parser(HELP.format(**about), prog=program, usage=usage)
    for name in names:
        kind = str if name == first else Path
        parser.add_argument(name, metavar=name.upper(), type=kind, help=argparse.SUPPRESS)
    parser.add_argument("--seed", type=count, default=1, metavar="N", help="default: %(default)s")
    add_device_arguments(parser, one_worker)
    parser.set_defaults(one_worker=one_worker)
    parser.add_argument("--print", action="store_true", help="show the command; train nothing")
    return parser


def read_request(parser: argparse.ArgumentParser, words: list[str]) -> Request:
    """Parses a command line by a :func:`finetuning_parser`.

    Raises:
        RecipeError: for flags that the page sets, or paths that fairseq cannot take.
    """
    args, others = parser.parse_known_args(words)
    user = Flags.of(others)
    if taken := [name for name in OWN if name in user]:
        raise RecipeError(f"{taken[0]} is set by {parser.prog}; see --help")
    if taken := [name for name in OTHER_BATCH if name in user]:
        raise RecipeError(f"{taken[0]}: give --batch-size, the sentences or molecules of an update")
    if ":" in str(args.data):
        raise RecipeError(f"{args.data}: fairseq takes a folder without ':' in its name")
    devices = Devices.find(args.gpus, precision=args.precision)
    if args.one_worker:
        if args.gpus and args.gpus > 1:
            raise RecipeError(f"--gpus {args.gpus}: {parser.prog} trains on one GPU, or the CPU")
        devices = Devices.find(min(devices.gpus, 1), {}, args.precision)
    return Request(args, user, devices)


def positions(pretrained: Pretrained, least: int = LONGEST) -> int:
    """--max-positions. Rotary positions have no weights: an MLM may have more than its pre-training had, else
    it would lose what an ExLM, whose positions count its states, gets to read."""
    own = pretrained.max_positions or 0
    return own if pretrained.expands else max(own, least * pretrained.repeat)


def schedule(recipe: Flags, batches: int) -> Flags:
    """--total-num-update and --warmup-updates in the place of --warmup-ratio.

    Args:
        recipe: has --max-epoch; --warmup-ratio is taken from it.
        batches: updates of an epoch.
    """
    ratio = recipe.number("--warmup-ratio", below=1)
    recipe.take("--warmup-ratio")
    updates = recipe.whole("--max-epoch") * batches
    flags = Flags()
    flags.set("--total-num-update", updates)
    flags.set("--warmup-updates", round(ratio * updates))
    return flags


def shorter(user: Flags) -> dict[str, str]:
    """A user's flags that make a fine-tuning end sooner, or look at less, than its recipe says."""
    return {name: " ".join(user[name]) for name in SHORTER if name in user}


def batch_and_schedule(groups: dict[str, Flags], rows: int) -> None:
    """Changes an update's batch into a step's, and the warm-up's share into updates, for one process.

    Args:
        groups: of :func:`override`, to change; gets "batch".
        rows: of the training set.
    """
    recipe = groups["recipe"]
    update = recipe.whole("--batch-size")
    recipe |= schedule(recipe, math.ceil(rows / update))
    recipe.take("--batch-size")
    groups["batch"] = divide(update, groups["user"].take("--update-freq").value("--update-freq"))


def plan_of(
    request: Request,
    data: Path,
    groups: dict[str, Flags],
    asked: dict,
    read: dict[str, list[Path]],
    start: str | list[str],
    evaluation: list[str] | None = None,
) -> Plan:
    """A plan, with what every fine-tuning has besides.

    Args:
        data: what fairseq-train reads.
        asked: as for :class:`Plan`, without the seed.
        read: name -> files besides the checkpoint.
        start: the page's variable.
        evaluation: options of the evaluation, without the device.
    """
    args, devices = request.args, request.devices
    read = {"checkpoint": [args.checkpoint], **read}
    on_cpu = [] if devices.gpus else ["--device", "cpu"]
    return Plan(
        save=args.save,
        data=str(data),
        groups={**groups, "device": devices.flags},
        asked={**asked, "seed": args.seed, **shorter(request.user)},
        inputs={} if args.print else {name: sha256(*paths) for name, paths in read.items()},
        show=args.print,
        values={"start": start, "seed": str(args.seed), "evaluation": [*(evaluation or []), *on_cpu]},
    )


def check_finished(plan: Plan, result: str, said: str) -> None:
    """Sets ``plan.finished`` if SAVE has the result of this very run.

    Raises:
        RecipeError: if it has another run's.
    """
    if not plan.show and (plan.save / result).exists():
        folders.claim(plan.save, plan.settings(), plan.inputs, [], results=(result,))
        plan.finished = f"finished before: {plan.save / result}\n{said}".rstrip()
