"""Two small jobs of the workflow, each after other jobs:

    python -m lib.workflow.jobs finish OUTPUT/study/NAME/seed-N
    python -m lib.workflow.jobs best OUTPUT.json RESULT.json...

finish sums up a finished pre-training in train.json, written last. It drops the optimizer's state, which only
resuming needs, from the checkpoints, and removes checkpoint_best.pt and those of the last update, which is in
checkpoint_last.pt.

best chooses among trials with one seed: the point of a grid with the highest metric of its task on the
development set (of MNLI, the matched one). Of equals the first counts. The flags of the best are written
beside OUTPUT.json, for the trainings with the other seeds.
"""

import platform
import sys
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from lib.command_line import script
from lib.files import MANIFEST, read_json, write_lines
from lib.recipes import Point
from lib.run import logs
from lib.workflow.runs import Run

from fs_plugins.files import atomic, write_json

CURVE = ("update", "loss", "accuracy", "ppl")  # columns of the log in train.json


def finish(save: Path) -> None:
    """Writes train.json; of a training whose log is lost, without its curve."""
    run, records = Run.at(save), logs.read_log(save / "train.log")
    updates = drop_optimizer(save / "checkpoint_last.pt")
    for path in [save / "checkpoint_best.pt", *save.glob(f"checkpoint_*_{updates}.pt")]:
        path.unlink(missing_ok=True)
    for path in save.glob("checkpoint_*_*.pt"):
        drop_optimizer(path)
    trained = [record for record in records if record["kind"] == "train"]
    manifest, seconds = read_json(save / MANIFEST), logs.training_seconds(records)
    corrupted = logs.corruption(trained, run.k) if run.model == "repeated-mlm" else None
    workers = manifest["workers"]
    content = {
        "updates": updates,
        "seconds": seconds,
        "gpu_seconds": workers[0] * seconds if seconds and len(workers) == 1 else None,  # else unknown
        "machine": platform.node(),
        "corrupted": corrupted and {"proportion": corrupted[0], "tokens": corrupted[1]},
        "curve": [{name: record.get(name) for name in CURVE} for record in trained],
    }
    write_json(save / "train.json", content)


def drop_optimizer(checkpoint: Path) -> int:
    """Rewrites a checkpoint without what only resuming needs; returns its updates."""
    content = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    if content.get("last_optimizer_state") is not None:
        content["last_optimizer_state"] = None
        with atomic(checkpoint, "wb") as file:
            torch.save(content, file)
    return content["optimizer_history"][-1]["num_updates"]


def best(output: Path, paths: list[Path]) -> None:
    """Writes the flags of the best trial, and its flags with the scores of all."""
    scores = dict(map(trial, paths))
    flags = max(scores, key=scores.get)
    write_lines(output.with_suffix(".flags"), [flags])
    write_json(output, {"best": flags, "scores": scores})


def trial(path: Path) -> tuple[str, float]:
    """Returns a trial's flags, which say what differs between trials, and its score."""
    content = read_json(path)
    point = Point(**content["manifest"]["settings"]["point"])
    return str(point.flags), content["metrics"]["valid"][content["metric"]]


@script
def main() -> None:
    match sys.argv[1:]:
        case ["finish", save]:
            finish(Path(save))
        case ["best", output, *results] if results:
            best(Path(output), [*map(Path, results)])
        case _:
            raise SystemExit(__doc__)
