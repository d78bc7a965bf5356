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

DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)
# columns that a frame always has
COLUMNS = ("path", "table", "model", "rate", "seed", "tuning_seed", "task", "point", "choice", "marks", "end")
COLUMNS += ("updates", "p", "test.rows_sha256")


def frame(output: Path, problems: list[str]) -> pd.DataFrame:
    """Returns a row for each file of results and, of logs and measures, for each moment and p, with COLUMNS.
    Damaged files are ``problems``.

    ``table`` is ``study``, or that of a fine-tuning outside it; ``model`` a name of runs.csv or of
    ``models=``; ``rate`` the name of its learning rate. The numbers are in columns named after their files:
    ``train.seconds``, ``log.loss``, ``probe.bits``; those of a fine-tuning, in percent but of a regression,
    after the columns of the paper's tables: ``score.MNLI-m``, and ``valid.`` and ``test.`` of molecules.
    """
    trained, rows = [*output.glob(f"{STUDY}/*/*/*/train.json")], []
    measured = [path for train in trained for path in train.parent.glob("*.json")]
    for path in sorted({*trained, *measured, *output.rglob(RESULT)}):
        table, model, *rest = path.relative_to(output).parts
        about = {"path": path, "table": table, "model": model}
        try:
            if table == STUDY:
                about |= {"rate": rest[0].removeprefix("lr-"), "seed": int(rest[1].removeprefix("seed-"))}
            content = json.loads(path.read_text(encoding="utf-8"))
            rows += [{**about, **row} for row in rows_of(path.name, content)]
        except DAMAGED as error:
            problems.append(f"{path} is damaged: {error!r}")
    found = pd.json_normalize(rows)
    return found.reindex(columns=[*COLUMNS, *found.columns.difference(COLUMNS, sort=False)])


def rows_of(name: str, content: dict) -> Iterator[dict]:
    """Yields what a file of results says, names nested."""
    if name == RESULT:
        yield {"end": end_of(content, "--max-epoch"), **FINETUNED[content["benchmark"]](content)}
    elif name == "train.json":
        curve = content.pop("curve", [])
        yield {"train": content, "end": end_of(content, "--max-update")}
        yield from ({"updates": one["update"], "log": one} for one in curve)
    for row in content.get("rows", []) if name not in (RESULT, "train.json") else ():
        for result in row["results"]:
            yield {"updates": row["updates"], "p": result["mask_prob"], Path(name).stem: result}


def end_of(content: dict, usual: str) -> str:
    """Returns how a training ended, if not as ``usual``."""
    ended = content.get("ended", {})
    if ended is None:
        return "its training was not finished" if content.get("checkpoint", True) else ""
    by = ended.get("by", usual)
    return "" if by == usual else f"{by} {ended['limit']} ended it after {ended['updates']:,} updates"


def _tried(content: dict) -> dict:
    """Returns what a result of one point of a grid has."""
    point = Point(**{key: str(value) for key, value in content["manifest"]["settings"]["point"].items()})
    score = float(content["metrics"]["valid"][content["metric"]])
    return {"task": content["task"], "tuning_seed": content["seed"], "point": point.key, "choice": score}


def _glue(content: dict) -> dict:
    task, metrics, rows = TASKS[content["task"]], content["metrics"], content["rows"]
    whole = all(rows[split] == task.official[split] for split in ("train", *task.valid_splits))
    marks = ("" if whole else "†") + ("‡" if content["manifest"]["inputs"].get("init_from") else "")
    scores = {task.title(split): metrics[split].get(task.metric) for split in task.valid_splits}
    # a score is missing if --metrics left it out
    scores = {column: 100 * score for column, score in scores.items() if score is not None}
    return {**_tried(content), "marks": marks, "score": scores}


def _squad(content: dict) -> dict:
    scores = content["metrics"]["valid"]
    marks = "" if scores.get("total") == squad.QUESTIONS else "†"
    return {**_tried(content), "marks": marks, "score": {"EM": scores["exact"], "F1": scores["f1"]}}


def _moleculenet(content: dict) -> dict:
    task, metric = content["task"], content["metric"]
    valid, test = ({**content["metrics"].get(split, {})} for split in ("valid", "test"))
    row = {"task": task, "tuning_seed": content["seed"], "metric": metric, "marks": ""}
    row |= {"split": content.get("split", {}).get("kind"), "names": [*test.pop("properties", {})]}
    valid.pop("properties", None)
    if metric == "auc" and metric in test:
        row["score"] = {KNOWN[task].title if task in KNOWN else task: 100 * test[metric]}
    return {**row, "valid": valid, "test": test}


FINETUNED = {"glue": _glue, "squad": _squad, "moleculenet": _moleculenet}


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
