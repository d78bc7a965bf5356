"""Chooses among trials by the results of one seed: the best learning rate, or the best point of a grid.

    python -m lib.study.best OUTPUT/rates/NAME.json OUTPUT/study/NAME/lr-RATE/seed-N/{joint,probe}.json...
    python -m lib.study.best TASK/best.json TASK/POINT/seed-N/result.json...

The best rate has the fewest bits per masked token, at the masking probability of the training: the joint
bits by joint.json, a token's own by probe.json. The best point has the highest metric of table 3 on the
development set; of MNLI, on the matched one. Of equals the first counts. The flags of the best are written
beside the JSON file, for the trainings with the other seeds.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from lib.command_line import UserError, run_main
from lib.files import read_json, write_json, write_lines
from lib.glue.grids import Point


def best_rate(paths: Iterable[Path]) -> tuple[dict, str]:
    """``{"lr", "seed", "bits"}``: the best rate, the seed that chose it, the bits of each rate; and its flag.

    Raises:
        UserError: if a result does not exist, or is damaged.
    """
    bits, seed = {}, None
    for path in paths:
        run = _result(path.parent / "train.json")["run"]
        found = next(one for one in _result(path)["results"] if one["mask_prob"] == run["own_mask_prob"])
        bits[run["lr"]] = found["bits"] if "bits" in found else found["joint"]["mean"]
        seed = run["seed"]
    best = min(bits, key=bits.get)
    return {"lr": best, "seed": seed, "bits": {f"{lr:g}": bits[lr] for lr in bits}}, f"--lr {best:g}"


def best_point(paths: Iterable[Path]) -> tuple[dict, str]:
    """``{"point", "score", "points"}``: the best point, its score, the scores of all; and its flags.

    Raises:
        UserError: if a result does not exist, or is damaged.
    """
    points = {Point(**found["manifest"]["settings"]["point"]): found for found in map(_result, paths)}
    scores = {point: found["metrics"]["valid"][found["metric"]] for point, found in points.items()}
    best = max(scores, key=scores.get)
    about = {
        "point": best.key,
        "score": scores[best],
        "points": {point.key: scores[point] for point in scores},
    }
    return about, str(best.flags)


def _result(path: Path) -> dict:
    if (content := read_json(path)) is None:
        raise UserError(f"{path} does not exist: its training is not finished")
    return content


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    output, *paths = map(Path, sys.argv[1:])
    about, flags = (best_point if paths[0].name == "result.json" else best_rate)(paths)
    write_lines(output.with_suffix(".flags"), [flags])
    write_json(output, about)


if __name__ == "__main__":
    sys.exit(run_main(main))
