"""Chooses the best point of a grid search on GLUE, from the results of one seed.

python -m lib.glue.best TASK/best.json TASK/POINT/seed-N/result.json...
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from lib.command_line import UserError, run_main
from lib.files import read_json, write_json


def dev_score(result: dict) -> float:
    """The metric of table 3 on the development set; of MNLI, on the matched one."""
    return result["scores"]["valid"][result["metric"]]


def best_point(results: Iterable[Path]) -> dict:
    """``{"point", "score", "points"}``: the point that scored best (of equals the first), by its folder's
    name, its score, and the scores of all.

    Raises:
        UserError: if a result does not exist, or is damaged.
    """
    scores = {}
    for path in results:
        result = read_json(path)
        if result is None:
            raise UserError(f"{path} does not exist: its fine-tuning is not finished")
        scores[path.parents[1].name] = dev_score(result)
    point = max(scores, key=scores.get)
    return {"point": point, "score": scores[point], "points": scores}


def main() -> None:
    if len(sys.argv) < 3:
        raise SystemExit(__doc__)
    output, *results = map(Path, sys.argv[1:])
    write_json(output, best_point(results))


if __name__ == "__main__":
    sys.exit(run_main(main))
