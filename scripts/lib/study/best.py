"""Chooses among trials by the results of one seed: the best learning rate, or the best point of a grid.

    python -m lib.study.best NAME/best.json NAME/lr-RATE/seed-N/{joint,probe}.json...
    python -m lib.study.best TASK/best.json TASK/POINT/seed-N/result.json...

The best rate has the fewest bits per masked token, at the masking probability of the training: the joint
bits by joint.json, a token's own by probe.json. The best point has the highest metric of its task on the
development set; of MNLI, on the matched one. Of equals the first counts. The flags of the best are written
beside the JSON file, for the trainings with the other seeds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from lib.command_line import UserError, run_main
from lib.files import RESULT, read_json, write_json, write_lines
from lib.glue.grids import Point


def trial(path: Path) -> tuple[str, str, float, int]:
    """Its name, its flags, its score (of bits the negative) and its seed.

    Raises:
        UserError: if a result does not exist, or is damaged.
    """
    found = _result(path)
    if path.name == RESULT:
        point = Point(**found["manifest"]["settings"]["point"])
        return point.key, str(point.flags), found["metrics"]["valid"][found["metric"]], found["seed"]
    run = _result(path.parent / "train.json")["run"]
    one = next(one for one in found["results"] if one["mask_prob"] == run["own_mask_prob"])
    bits = one["bits"] if "bits" in one else one["joint"]["mean"]
    return f"{run['lr']:g}", f"--lr {run['lr']:g}", -bits, run["seed"]


def _result(path: Path) -> dict:
    if (content := read_json(path)) is None:
        raise UserError(f"{path} does not exist: its training is not finished")
    return content


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    output, *paths = map(Path, sys.argv[1:])
    found = [trial(path) for path in paths]
    best, flags, _, seed = max(found, key=lambda one: one[2])
    write_lines(output.with_suffix(".flags"), [flags])
    write_json(output, {"best": best, "seed": seed, "scores": {name: score for name, _, score, _ in found}})


if __name__ == "__main__":
    sys.exit(run_main(main))
