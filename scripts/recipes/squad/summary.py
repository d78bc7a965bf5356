#!/usr/bin/env python
"""The scores of fine-tuning runs side by side, and their median, as the paper reports it.

python scripts/squad/summary.py runs/squad/seed1 runs/squad/seed2 runs/squad/seed3
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from pathlib import Path

COLUMNS = ("exact", "f1", "HasAns_f1", "NoAns_f1", "best_exact", "best_f1")


def table(scores: dict[str, dict]) -> list[str]:
    """Lines of a Markdown table: a row a run, the medians last; a dash where a run has no such questions."""
    lines = [f"| run | {' | '.join(COLUMNS)} |", f"|---|{'---|' * len(COLUMNS)}"]
    rows = {name: [one.get(column) for column in COLUMNS] for name, one in scores.items()}
    if len(rows) > 1:
        columns = zip(*rows.values(), strict=True)
        rows["median"] = [None if None in column else statistics.median(column) for column in columns]
    for name, values in rows.items():
        cells = ("-" if value is None else f"{value:.2f}" for value in values)
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, help="each with the scores.json of predict_squad.py")
    folders = parser.parse_args().folders
    missing = [str(folder) for folder in folders if not (folder / "scores.json").is_file()]
    if missing:
        print(f"error: there is no scores.json in {', '.join(missing)}", file=sys.stderr)
        return 2
    scores = {str(folder): json.loads((folder / "scores.json").read_text()) for folder in folders}
    print("\n".join(table(scores)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
