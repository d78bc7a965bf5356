"""All results in an output folder of the workflow as one data frame, and numbers over seeds as texts."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

import pandas as pd
from lib import squad
from lib.files import RESULT
from lib.glue import TASKS
from lib.moleculenet import KNOWN
from lib.recipes import Point
from lib.workflow.runs import STUDY

DAMAGED = (OSError, ValueError, LookupError, TypeError, AttributeError)
# columns that a frame always has
COLUMNS = ("path", "table", "model", "seed", "task", "tuning_seed", "point", "updates", "p")
COLUMNS += ("split.kind", "test.labels", "test.rows_sha256")
# a column of the paper's tables -> the task, the column of the frame, and the factor that makes percent
SCORES = {"EM": (squad.NAME, "valid.exact", 1), "F1": (squad.NAME, "valid.f1", 1)}
SCORES |= {
    task.title(split): (task.name, f"{split}.{task.metric}", 100)
    for task in TASKS.values()
    for split in task.valid_splits
}
SCORES |= {known.title: (name, "test.auc", 100) for name, known in KNOWN.items()}


def frame(output: Path, problems: list[str]) -> pd.DataFrame:
    """Returns a row for each file of results and, of logs and measures, for each moment and p, with COLUMNS.
    Damaged files are ``problems``.

    ``table`` is ``study``, or that of a fine-tuning outside it; ``model`` a name of runs.csv or of
    ``models=``. The numbers are in columns named after their files and places there, such as
    ``train.seconds``, ``log.loss`` and ``probe.bits``; those of fine-tunings after their splits,
    ``valid.accuracy``.
    """
    trained, rows = [*output.glob(f"{STUDY}/*/*/train.json")], []
    measured = [path for train in trained for path in train.parent.glob("*.json")]
    for path in sorted({*trained, *measured, *output.rglob(RESULT)}):
        try:
            table, model, *rest = path.relative_to(output).parts
            about = {"path": path, "table": table, "model": model}
            if table == STUDY:
                about["seed"] = int(rest[0].removeprefix("seed-"))
            content = json.loads(path.read_text(encoding="utf-8"))
            rows += [{**about, **row} for row in rows_of(path.name, content)]
        except DAMAGED as error:
            problems.append(f"{path} is damaged: {error!r}")
    found = pd.json_normalize(rows)
    return found.reindex(columns=[*COLUMNS, *found.columns.difference(COLUMNS, sort=False)])


def rows_of(name: str, content: dict) -> Iterator[dict]:
    """Yields what a file of results says, names nested."""
    if name == RESULT:
        yield finetuned(content)
    elif name == "train.json":
        curve = content.pop("curve", [])
        yield {"train": content}
        yield from ({"updates": one["update"], "log": one} for one in curve)
    for row in content.get("rows", []) if name not in (RESULT, "train.json") else ():
        for result in row["results"]:
            yield {"updates": row["updates"], "p": result["mask_prob"], Path(name).stem: result}


def finetuned(content: dict) -> dict:
    """Returns what a result of a fine-tuning, or of a forest, says."""
    metrics, task, manifest = content["metrics"], content["task"], content.get("manifest", {})
    row = {name: content.get(name) for name in ("task", "metric", "split")} | metrics
    row |= {"tuning_seed": content["seed"], "point": "", "marks": ""}
    for split in ("valid", "test"):
        names = [*row.setdefault(split, {}).pop("properties", {})]
        row |= {"properties": names} if names else {}
    if content["benchmark"] != "moleculenet":  # one point of a grid
        point = {key: str(value) for key, value in manifest["settings"]["point"].items()}
        whole = metrics["valid"].get("total") == squad.QUESTIONS
        if task in TASKS:
            rows, official = content["rows"], TASKS[task].official
            whole = all(rows.get(split) == official[split] for split in ("train", *TASKS[task].valid_splits))
        row["point"], row["choice"] = Point(**point).key, metrics["valid"].get(content["metric"])
        row["marks"] = "" if whole else "†"
    return row


def column(results: pd.DataFrame, name: str) -> pd.Series:
    """Returns a column of a frame as numbers; NaN where there is none."""
    return results.get(name, pd.Series(index=results.index)).astype(float)


def cell(
    numbers: Iterable, digits: int = 1, expected: int = 0, median: bool = False, count: bool = True
) -> str:
    """Returns numbers over seeds as a text such as "82.0 ± 1.4 (n=3)", mean ± sample standard deviation;
    "82.0 (n=2 of 3)", a median with a seed missing; "82.0", one seed; "", none.

    Args:
        numbers: one for each seed, None or NaN where it is missing.
        expected: seeds that were asked for, 0 if that is not known.
        count: whether the number of seeds is shown.
    """
    known = pd.Series([*numbers], dtype=float).dropna()
    if known.empty:
        return ""
    centre = known.median() if median else known.mean()
    spread = f" ± {known.std():.{digits}f}" if len(known) > 1 and not median else ""
    n = f"{len(known)}" + (f" of {expected}" if len(known) < expected else "")
    return f"{centre:z.{digits}f}{spread}" + (f" (n={n})" if count and n != "1" else "")
