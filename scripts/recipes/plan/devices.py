"""What a training runs on: the visible GPUs or the CPU, alone or as one of several processes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from dataclasses import dataclass

from recipes.command_line import RecipeError, count
from recipes.flags import Flags
from recipes.on_gpu import visible_gpus

DISTRIBUTED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
PRECISIONS = {  # name -> flags of fairseq-train
    "fp16": ("--fp16", "--fp16-scale-tolerance", "0.1", "--fp16-scale-window", "50"),
    "bf16": ("--bf16",),
    "fp32": (),
}


def add_device_arguments(parser: argparse.ArgumentParser, one_worker: bool = False) -> None:
    group = parser.add_mutually_exclusive_group()
    most, default = (", at most 1", "1 if any is visible") if one_worker else ("", "the visible ones")
    group.add_argument("--gpus", type=count, metavar="N", help=f"GPUs to train on{most} (default: {default})")
    group.add_argument("--cpu", dest="gpus", action="store_const", const=0, help="train on the CPU")
    group = parser.add_mutually_exclusive_group()
    about = {
        "fp16": "half precision (default on GPUs)",
        "bf16": "bfloat16",
        "fp32": "single (default on the CPU)",
    }
    for name, text in about.items():
        group.add_argument(f"--{name}", dest="precision", action="store_const", const=name, help=text)


@dataclass(frozen=True)
class Devices:
    """GPUs of this process or of those it starts, and the processes that train together.

    Attributes:
        gpus: 0 for the CPU.
        workers: processes in all, on all machines.
        flags: of fairseq-train.
    """

    gpus: int
    workers: int
    flags: Flags

    @classmethod
    def find(
        cls, asked: int | None, environment: Mapping[str, str] = os.environ, precision: str | None = None
    ) -> Devices:
        """Those asked for, else the visible ones.

        Alone, a process starts one worker a GPU; with RANK and its like in the environment, as torchrun and
        the SLURM example of docs/data.md set them, it is itself one of WORLD_SIZE workers.

        Raises:
            RecipeError: if the environment says something that cannot be.
        """
        gpus = len(visible_gpus(environment)) if asked is None else asked
        flags = Flags.of(() if gpus else ("--cpu", "--num-workers", "0"))
        flags |= Flags.of(PRECISIONS[precision or ("fp16" if gpus else "fp32")])
        workers = max(gpus, 1)
        if environment.get("RANK") or environment.get("WORLD_SIZE"):
            rank, workers = _place(environment)
            if workers > 1:
                address = f"tcp://{environment['MASTER_ADDR']}:{environment['MASTER_PORT']}"
                flags.set("--distributed-rank", rank)
                flags.set("--distributed-init-method", address)
                flags.set("--distributed-no-spawn")
                if gpus:
                    flags.set("--device-id", int(environment.get("LOCAL_RANK") or rank) % gpus)
                else:
                    flags.set("--distributed-backend", "gloo")
                    flags.set("--ddp-backend", "legacy_ddp")
        flags.set("--distributed-world-size", workers)
        return cls(gpus, workers, flags)


def _place(environment: Mapping[str, str]) -> tuple[int, int]:
    """(rank, workers)."""
    for name in DISTRIBUTED:
        if not environment.get(name):
            raise RecipeError(
                f"RANK or WORLD_SIZE is set, but not {name}: processes that train together need all of "
                f"{', '.join(DISTRIBUTED)} (and LOCAL_RANK), as torchrun sets them"
            )
    for name in ("RANK", "WORLD_SIZE", "MASTER_PORT", "LOCAL_RANK"):
        if not (environment.get(name) or "0").isdigit():
            raise RecipeError(f"{name}='{environment[name]}': it has to be a whole number")
    rank, workers = int(environment["RANK"]), int(environment["WORLD_SIZE"])
    if rank >= workers:
        raise RecipeError(f"RANK={rank}: with WORLD_SIZE={workers} it is 0 to {workers - 1}")
    return rank, workers
