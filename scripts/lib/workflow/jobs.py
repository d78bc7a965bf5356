"""Two small jobs of the workflow, each after other jobs:

    python -m lib.workflow.jobs finish SAVE RUN
    python -m lib.workflow.jobs best OUTPUT.json RESULT.json...

finish sums up a finished pre-training in SAVE/train.json, written last; RUN is its row of the table of runs,
as JSON. It drops the optimizer's state, which only resuming needs, from the checkpoints, and removes
checkpoint_best.pt and those of the last update, which is in checkpoint_last.pt.

best chooses among trials with one seed: the learning rate with the fewest bits per masked token at the
masking probability of the training (by joint.json the joint bits, by probe.json a token's own), or the point
of a grid with the highest metric of its task on the development set (of MNLI, the matched one). Of equals the
first counts. The flags of the best are written beside OUTPUT.json, for the trainings with the other seeds.
"""

import json
import platform
import sys
from operator import itemgetter
from pathlib import Path

import torch
from fairseq import checkpoint_utils
from lib.command_line import Flags, script
from lib.files import MANIFEST, RESULT, read_json, write_lines
from lib.recipes import Point
from lib.run import logs

from fs_plugins.fairseq_patches.ending import ENDED
from fs_plugins.files import atomic, write_json

CURVE = ("update", "loss", "accuracy", "ppl")  # columns of the log in train.json


def finish(save: Path, run: dict) -> None:
    """Writes train.json, whose ``run`` has the learning rate as "lr", and what was asked for as "rate"; of a
    training whose log is lost, without its curve."""
    records = logs.read_log(save / "train.log")
    updates = drop_optimizer(save / "checkpoint_last.pt")
    for path in [save / "checkpoint_best.pt", *save.glob(f"checkpoint_*_{updates}.pt")]:
        path.unlink(missing_ok=True)
    for path in save.glob("checkpoint_*_*.pt"):
        drop_optimizer(path)
    trained = [record for record in records if record["kind"] == "train"]
    manifest, seconds = read_json(save / MANIFEST), logs.training_seconds(records)
    corrupted = logs.corruption(trained, run["k"]) if run["model"] == "repeated-mlm" else None
    workers = Flags.of(manifest["runs"][2:]).whole("--distributed-world-size")
    content = {
        "run": {**run, "rate": run["lr"], "lr": float(manifest["settings"]["--lr"])},
        "updates": updates,
        "seconds": seconds,
        "gpu_seconds": seconds and workers * seconds,
        "machine": platform.node(),
        "corrupted": corrupted and {"proportion": corrupted[0], "tokens": corrupted[1]},
        "curve": [{name: record.get(name) for name in CURVE} for record in trained],
        "ended": read_json(save / ENDED),
    }
    write_json(save / "train.json", content)


def drop_optimizer(checkpoint: Path) -> int:
    """Rewrites a checkpoint without what only resuming needs; returns its updates."""
    content = checkpoint_utils.load_checkpoint_to_cpu(str(checkpoint))
    if content["last_optimizer_state"] is not None:
        content["last_optimizer_state"] = None
        with atomic(checkpoint, "wb") as file:
            torch.save(content, file)
    return content["optimizer_history"][-1]["num_updates"]


def best(output: Path, paths: list[Path]) -> None:
    """Writes the name of the best trial with all scores (of bits the negative), and its flags."""
    trials = [trial(path) for path in paths]
    name, flags, _, seed = max(trials, key=itemgetter(2))
    write_lines(output.with_suffix(".flags"), [flags])
    write_json(output, {"best": name, "seed": seed, "scores": {name: score for name, _, score, _ in trials}})


def trial(path: Path) -> tuple[str, str, float, int]:
    """Returns a trial's name, its flags, its score and its seed."""
    content = read_json(path)
    if path.name == RESULT:
        point = Point(**content["manifest"]["settings"]["point"])
        return point.key, str(point.flags), content["metrics"]["valid"][content["metric"]], content["seed"]
    run = read_json(path.with_name("train.json"))["run"]
    [measured] = content["rows"]
    own = next(result for result in measured["results"] if result["mask_prob"] == run["own_p"])
    return f"{run['lr']:g}", f"--lr {run['lr']:g}", -own["bits"], run["seed"]


@script
def main() -> None:
    match sys.argv[1:]:
        case ["finish", save, run]:
            finish(Path(save), json.loads(run))
        case ["best", output, *results] if results:
            best(Path(output), [*map(Path, results)])
        case _:
            raise SystemExit(__doc__)
