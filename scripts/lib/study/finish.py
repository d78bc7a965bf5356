"""Sums up a finished pre-training of the study in SAVE/train.json, written last.

    python -m lib.study.finish SAVE RUN

RUN is the run's row of the table of runs, as JSON. Drops the optimizer's state, which only resuming needs,
from the checkpoints, and removes checkpoint_best.pt and those of the last update, which is in
checkpoint_last.pt.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

from lib import logs
from lib.command_line import Flags, UserError, run_main
from lib.cost import flops_of_run
from lib.files import MANIFEST, atomic, read_json, write_json


def finish(save: Path, run: dict) -> dict:
    """The content of train.json, with ``run``: its "lr" is the learning rate, its "rate" what was asked for.

    Raises:
        UserError: if the folder holds no finished training, or its data are gone.
    """
    records = logs.read_log(save / "train.log")
    if not records:
        raise UserError(f"{save / 'train.log'} has no figures: remove {save}, and rerun the same command")
    updates = max(record["update"] for record in records)
    drop_optimizer(save / "checkpoint_last.pt")
    for path in [save / "checkpoint_best.pt", *save.glob(f"checkpoint_*_{updates}.pt")]:
        path.unlink(missing_ok=True)
    for path in save.glob("checkpoint_*_*.pt"):
        drop_optimizer(path)
    corrupted = logs.corruption(records, run["k"]) if run["model"] == "repeated-mlm" else None
    manifest, seconds = read_json(save / MANIFEST), logs.training_seconds(records)
    workers = Flags.of(manifest["runs"][2:]).whole("--distributed-world-size")
    return {
        "run": {**run, "rate": run["lr"], "lr": float(manifest["settings"]["--lr"])},
        "updates": updates,
        "gpu_seconds": seconds and workers * seconds,
        "machine": platform.node(),
        "corrupted": corrupted and {"proportion": corrupted[0], "tokens": corrupted[1]},
        "flops": flops_of_run(manifest["runs"]),
    }


def drop_optimizer(checkpoint: Path) -> None:
    """Rewrites a checkpoint without what only resuming needs."""
    import torch
    from fairseq import checkpoint_utils

    import fs_plugins  # noqa: F401  (what torch.load may load)

    if not checkpoint.is_file():
        raise UserError(f"the training left no {checkpoint}: see {checkpoint.with_name('train.log')}")
    content = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    if content["last_optimizer_state"] is not None:
        content["last_optimizer_state"] = None
        with atomic(checkpoint, "wb") as file:
            torch.save(content, file)


def main() -> None:
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    save = Path(sys.argv[1])
    write_json(save / "train.json", finish(save, json.loads(sys.argv[2])))


if __name__ == "__main__":
    sys.exit(run_main(main))
