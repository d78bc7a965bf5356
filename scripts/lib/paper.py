"""The paper's numbers: a JSON file per figure or table in configs/paper/."""

from __future__ import annotations

import json
from functools import cache

from lib.files import CONFIGS

Cells = dict[tuple[int, float], float]  # (k, p) -> value


@cache
def numbers(name: str) -> dict:
    """What the paper gives for a figure or table, such as ``figure5`` or ``table3``.

    All have a ``source``. Most have a ``unit`` and one of: ``grid`` ("k,p" -> number; ``figure8`` has
    ``grids``, one per task), ``rows`` of ``{"method", "run", "values"}``, or ``columns`` and ``rows``
    (model -> numbers, null where the paper has none).
    """
    return json.loads((CONFIGS / "paper" / f"{name}.json").read_text(encoding="utf-8"))


def cells(grid: dict[str, float]) -> Cells:
    """A grid of :func:`numbers` by k and p."""
    split = {key: key.split(",") for key in grid}
    return {(int(k), float(p)): grid[key] for key, (k, p) in split.items()}


def columns(name: str) -> dict[str, dict[str, float | None]]:
    """The rows of ``table1`` or ``table3``: model -> column, also ``MEAN`` -> number."""
    table = numbers(name)
    rows = {model: dict(zip(table["columns"], row, strict=True)) for model, row in table["rows"].items()}
    return {model: {"MEAN": table.get("mean", {}).get(model), **row} for model, row in rows.items()}
