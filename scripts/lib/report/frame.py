"""Results as frames. What a result is of stands in its file and the manifest beside it, not in its path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from lib.files import RESULT
from lib.glue.grids import Point

DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)
STUDY = ["folder", "name", "seed", "rate", "lr", "measure", "task", "tuning_seed"]
STUDY += ["updates", "mask_prob", "metric", "value"]


def read(path: Path, problems: list[str]) -> dict:
    """The content of a JSON file; empty if it does not exist, or is damaged, which is a problem."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}
    except DAMAGED as error:
        problems.append(f"{path} is damaged: {error}")
        return {}


def numbers(content, prefix: str = "") -> Iterator[tuple[str, float]]:
    """(name, number) of all that a result holds; nested names are joined by dots, a mean has none."""
    if isinstance(content, dict):
        for name, value in content.items():
            yield from numbers(value, prefix if name == "mean" else f"{prefix}.{name}".removeprefix("."))
    elif isinstance(content, (int, float)) and not isinstance(content, bool):
        yield prefix, content


def measurements(content: dict) -> Iterator[dict]:
    """A row for each number of a result of fs_plugins.analysis, a training or a fine-tuning."""
    for checkpoint in content.get("rows", [content]):
        found = checkpoint.get("results", checkpoint)
        for one in found if isinstance(found, list) else [found]:
            at = {"updates": checkpoint.get("updates"), "mask_prob": one.get("mask_prob")}
            yield from ({**at, "metric": name, "value": value} for name, value in numbers(one))


def study(output: Path, problems: list[str]) -> pd.DataFrame:
    """A row for each number of each finished pre-training in OUTPUT/study, with the columns STUDY."""
    rows = []
    for train in sorted((output / "study").glob("*/*/*/train.json")):
        run, folder = read(train, problems).get("run") or {}, train.parent
        about = {"folder": folder, **{name: run.get(name) for name in ("name", "seed", "rate", "lr")}}
        paths = [*sorted(folder.glob("*.json")), *sorted(folder.glob("glue/*/*/*/result.json"))]
        for path in paths if run else ():
            try:
                content, of = json.loads(path.read_text(encoding="utf-8")), {"measure": path.stem}
                if path.name == "result.json":
                    of |= {"task": content["task"], "tuning_seed": content["seed"]}
                    content = {"metrics": content["metrics"]}
                rows += [{**about, **of, **one} for one in measurements(content)]
            except DAMAGED as error:
                problems.append(f"{path} is damaged: {error!r}")
    return pd.DataFrame(rows, columns=STUDY)


def finetunings(name: str, folder: Path, problems: list[str]) -> pd.DataFrame:
    """A row for each fine-tuning or baseline below a model's folder.

    Columns are the names in its file, joined by dots, and ``model``, ``path``, ``table`` and ``point`` (of a
    grid, as text; "" in table 1).
    """
    rows = [dict.fromkeys(("model", "path", "table", "task", "seed", "point", "kind"))]
    for path in sorted(folder.rglob(RESULT)):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            found = {key: value for key, [value] in pd.json_normalize(content).items()}
            about = {"model": name, "path": path, "table": "table1" if "kind" in found else "table3"}
            about["seed"] = int(content["seed"])
            split, point = ("test", "") if "kind" in found else ("valid", _point(content))
            score = content["metrics"][split][content["metric"]]
            if score is None and point:
                raise ValueError(f"no {content['metric']}")  # no point can be chosen
            rows.append({**found, **about, "point": point})
        except DAMAGED as error:
            problems.append(f"{path} is damaged: {error!r}")
    return pd.DataFrame(rows[1:], columns=list(dict.fromkeys(key for row in rows for key in row)))


def _point(content: dict) -> str:
    return Point(**{key: str(value) for key, value in content["manifest"]["settings"]["point"].items()}).key
