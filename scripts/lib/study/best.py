"""Chooses the best learning rate of a row of a table of runs, by one seed.

    python -m lib.study.best OUTPUT/rates/NAME.json OUTPUT/study/NAME/lr-RATE/seed-N/MEASURE.json...

The best has the fewest bits per masked token, at the masking probability of its training:
the joint bits by joint.json, a token's own by probe.json.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from lib.command_line import UserError, run_main
from lib.files import read_json, write_json


def best_rate(results: Iterable[Path]) -> dict:
    """``{"lr", "seed", "bits"}``: the best rate (of equals the first), the seed that chose it, and the bits
    of each rate.

    Raises:
        UserError: if a result does not exist, or is damaged.
    """
    bits, seed = {}, None
    for path in results:
        result, training = read_json(path), read_json(path.parent / "train.json")
        if result is None or training is None:
            raise UserError(f"{path} does not exist: its training is not finished")
        run = training["run"]
        seed = run["seed"]
        found = next(one for one in result["results"] if one["mask_prob"] == run["own_ratio"])
        bits[run["lr"]] = found["bits"] if "bits" in found else found["joint"]["mean"]
    return {"lr": min(bits, key=bits.get), "seed": seed, "bits": {f"{lr:g}": bits[lr] for lr in bits}}


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    output, *results = map(Path, sys.argv[1:])
    write_json(output, best_rate(results))


if __name__ == "__main__":
    sys.exit(run_main(main))
