"""What the fine-tunings share: the command line, positions, the schedule, the end."""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lib.checkpoints import Pretrained
from lib.command_line import UserError, count
from lib.files import read_json
from lib.flags import Flags
from lib.folders import RESULT
from lib.launch import Training, devices, script_parser, visible_gpus

OWN = ("--seed", "--save-dir", "--restore-file", "--finetune-from-model")
OTHER_BATCH = ("--max-sentences", "--max-tokens")  # beside which --batch-size and the schedule would not hold
LONGEST = 512  # tokens that every model reads at least, however short the samples of its pre-training were
POINT = {"lr": "--lr", "batch": "--batch-size", "epochs": "--max-epoch", "warmup": "--warmup-ratio"}


@dataclass
class Request:
    """A fine-tuning as it was asked for: its options, and further flags for fairseq-train."""

    args: argparse.Namespace
    user: Flags
    workers: int
    devices: Flags


def finetuning_parser(script: str, one_worker: bool = False) -> argparse.ArgumentParser:
    """The options of every fine-tuning; with ``one_worker``, in one process, on one GPU if there is any."""
    parser = script_parser(script, one_worker)
    parser.add_argument("--seed", type=count, default=1, metavar="N", help="default: %(default)s")
    parser.set_defaults(one_worker=one_worker)
    return parser


def read_request(parser: argparse.ArgumentParser, words: list[str]) -> Request:
    """Parses a command line by a :func:`finetuning_parser`.

    Raises:
        UserError: for flags that the script sets, or paths that fairseq cannot take.
    """
    args, others = parser.parse_known_args(words)
    args.checkpoint, args.data, args.save = map(Path, (args.checkpoint, args.data, args.save))
    user = Flags.of(others)
    if taken := [name for name in OWN if name in user]:
        raise UserError(f"{taken[0]} is set by {parser.prog}; see --help")
    if taken := [name for name in OTHER_BATCH if name in user]:
        raise UserError(f"{taken[0]}: give --batch-size, the sentences or molecules of an update")
    if ":" in str(args.data):
        raise UserError(f"{args.data}: fairseq takes a folder without ':' in its name")
    environment = os.environ
    if args.one_worker:
        if args.gpus is None:
            args.gpus = min(len(visible_gpus()), 1)
        if args.gpus > 1:
            raise UserError(f"--gpus {args.gpus}: {parser.prog} trains on one GPU, or the CPU")
        environment = {}
    return Request(args, user, *devices(args, environment))


def positions(pretrained: Pretrained, least: int = LONGEST) -> int:
    """--max-positions. Rotary positions have no weights: an MLM may have more than its pre-training had, else
    it would lose what an ExLM, whose positions count its states, gets to read."""
    own = pretrained.max_positions or 0
    return own if pretrained.expands else max(own, least * pretrained.repeat)


def split_update(flags: Flags) -> Flags:
    """--batch-size of a step and --update-freq, for the steps that a user gives and one worker.

    Raises:
        UserError: if the update cannot be split over them.
    """
    update, steps = flags.whole("--batch-size"), flags.value("--update-freq") or "1"
    if not steps.isdigit() or int(steps) < 1 or update % int(steps):
        raise UserError(
            f"--update-freq {steps}: --batch-size {update} is that of an update, and cannot be split over so "
            "many steps"
        )
    return Flags({"--batch-size": (str(update // int(steps)),), "--update-freq": (steps,)})


def training(
    request: Request,
    task: str,
    flags: Flags,
    batch: Flags,
    rows: int,
    check_finished: Callable[[], None] = lambda: None,
    **more,
) -> Training:
    """A fine-tuning, which is finished when it has its result.

    Args:
        flags: with the user's; --batch-size is that of an update, --warmup-ratio is changed into updates.
        batch: --batch-size of a step and --update-freq.
        rows: examples of the training set.
        check_finished: raises UserError if a finished run lacks what is asked for.
        more: of :class:`Training`: data, words, notes; settings and inputs besides every fine-tuning's.
    """
    args, flags = request.args, Flags(flags)
    point = {name: flags.value(flag) for name, flag in POINT.items()}
    updates = flags.whole("--max-epoch") * math.ceil(rows / flags.whole("--batch-size"))
    warmup = round(flags.number("--warmup-ratio", below=1) * updates)
    flags.take("--warmup-ratio")
    schedule = Flags({"--total-num-update": (str(updates),), "--warmup-updates": (str(warmup),)})
    flags = schedule | flags | batch | request.devices | request.user.take(*request.devices)
    flags.set("--seed", args.seed)
    words, inputs, settings = (more.pop(name, {}) for name in ("words", "inputs", "settings"))
    words["evaluation"] = [*words.get("evaluation", []), *(["--device", "cpu"] if "--cpu" in flags else [])]

    def finished() -> str:
        if (result := read_json(args.save / RESULT)) is None:
            return ""
        check_finished()
        metric, metrics = result["metric"], result["metrics"]
        values = ", ".join(f"{split} {metric} {found.get(metric)}" for split, found in metrics.items())
        return f"finished before: {args.save / RESULT}, {values}"

    return Training(
        save=args.save,
        flags=flags,
        settings={"task": task, "point": point, "seed": args.seed, **settings},
        inputs={"checkpoint": [args.checkpoint], **inputs},
        finished=finished,
        show=args.print,
        words=words,
        **more,
    )
