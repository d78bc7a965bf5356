"""Chooses the best learning rate of a row of a comparison, from the probes of one seed.

    python -m recipes.study.best OUTPUT/rates/NAME.json OUTPUT/study/KEY/probe.json...

The best has the fewest bits a masked token, at the share of masked tokens that the model was trained with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from recipes.command_line import RecipeError, run_main
from recipes.files import read_json, write_json
from recipes.study.grids import Run


def best_rate(probes: Iterable[Path]) -> dict:
    """``{"lr", "seed", "bits"}``: the best rate (of equals the first), the seed that chose it, and the bits
    of each rate.

    Raises:
        RecipeError: if a result does not exist, or is damaged.
    """
    bits, seed = {}, None
    for path in probes:
        run, result = Run.of(path.parent.name), read_json(path)
        if result is None:
            raise RecipeError(f"{path} does not exist: its training is not finished")
        seed = run.seed
        bits[run.lr] = next(r["bits"] for r in result["results"] if r["mask_prob"] == run.own_ratio)
    return {"lr": min(bits, key=bits.get), "seed": seed, "bits": {f"{lr:g}": bits[lr] for lr in bits}}


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    output, *probes = map(Path, sys.argv[1:])
    write_json(output, best_rate(probes))


if __name__ == "__main__":
    sys.exit(run_main(main))
