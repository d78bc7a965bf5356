"""Results as frames. What a result is of stands in its file and the manifest beside it, not in its path."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from lib.files import RESULT
from lib.glue.tasks import TASKS, Point
from lib.logs import read_log
from lib.moleculenet.datasets import KNOWN
from lib.study.runs import GLUE_TASKS

DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError)
STUDY = ("folder", "name", "rate", "seed", "tuning_seed")
STUDY += ("measure", "metric", "mask_prob", "updates", "value")
FINETUNINGS = ("model", "path", "table", "task", "seed", "expected")
FINETUNINGS += ("point", "score", "from_mnli", "whole")  # of table 3
FINETUNINGS += ("split", "test", "unreadable")  # of molecules; a hash of the test set
CURVES = ("loss", "accuracy", "ppl")  # of a training's log
HALVES = {"valid": "MNLI-m", "valid1": "MNLI-mm"}
SQUAD, QUESTIONS = {"exact": "EM", "f1": "F1"}, 11_873  # of SQuAD 2.0's development set


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
    """A row for each number of a result of fs_plugins.analysis, or a training."""
    for checkpoint in content.get("rows", [content]):
        found = checkpoint.get("results", checkpoint)
        for one in found if isinstance(found, list) else [found]:
            at = {"updates": checkpoint.get("updates"), "mask_prob": one.get("mask_prob")}
            yield from ({**at, "metric": name, "value": value} for name, value in numbers(one))


def accuracies(paths: list[Path], problems: list[str]) -> Iterator[dict]:
    """A row for each accuracy of fine-tunings on GLUE: of a task, the mean of its development sets; of
    each half of MNLI; and the average of the study's tasks with a seed that has all."""
    seeds: dict[int, dict[str, float]] = {}
    for result in filter(None, (read(path, problems) for path in paths)):
        splits = {split: found["accuracy"] for split, found in result["metrics"].items() if split in HALVES}
        scores = seeds.setdefault(result["seed"], {})
        scores[result["task"]] = sum(splits.values()) / len(splits)
        if result["task"] == "MNLI":
            scores |= {HALVES[split]: score for split, score in splits.items()}
    for seed, scores in seeds.items():
        if scores.keys() >= set(GLUE_TASKS):
            scores["Avg"] = sum(scores[task] for task in GLUE_TASKS) / len(GLUE_TASKS)
        yield from ({"tuning_seed": seed, "metric": name, "value": value} for name, value in scores.items())


def study(output: Path, problems: list[str]) -> pd.DataFrame:
    """A row for each number of each finished pre-training in OUTPUT/study, with the columns STUDY; the
    measure is the name of its file, ``glue`` of fine-tunings, ``log`` of the records of the training."""
    rows = []
    for train in sorted((output / "study").glob("*/*/*/train.json")):
        folder, run = train.parent, read(train, problems).get("run")
        if not run:
            continue
        about = {"folder": folder, **{name: run[name] for name in ("name", "rate", "seed")}}
        for path in sorted(set(folder.glob("*.json")) - {folder / "manifest.json"}):
            rows += [{**about, "measure": path.stem, **one} for one in measurements(read(path, problems))]
        tuned = accuracies(sorted(folder.glob("glue/*/*/*/result.json")), problems)
        rows += [{**about, "measure": "glue", **one} for one in tuned]
        for record in (one for one in read_log(folder / "train.log") if one["kind"] == "train"):
            at = {**about, "measure": "log", "updates": record["update"]}
            curve = ((name, value) for name, value in numbers(record) if name in CURVES)
            rows += [{**at, "metric": name, "value": value} for name, value in curve]
    return pd.DataFrame(rows, columns=STUDY)


def title(task: str) -> str:
    """The paper's name of a set of MoleculeNet; all others as they are."""
    return KNOWN[task].title if task in KNOWN else task


def finetunings(name: str, folder: Path, problems: list[str]) -> pd.DataFrame:
    """A row for each fine-tuning or baseline below a model's folder, with the columns FINETUNINGS.

    Its numbers are in more columns, which are named as the paper's tables name them, such as ``MNLI-m``,
    ``F1`` or ``BBBP``; in percent, but of a regression.
    """
    rows = []
    for path in sorted(folder.rglob(RESULT)):
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            about = {"model": name, "path": path, "task": content["task"], "seed": int(content["seed"])}
            rows.append({**about, **(_molecules if "kind" in content else _texts)(content)})
        except DAMAGED as error:
            problems.append(f"{path} is damaged: {error!r}")
    columns = dict.fromkeys([*FINETUNINGS, *(key for row in rows for key in row)])
    return pd.DataFrame(rows, columns=list(columns))


def _texts(content: dict) -> dict:
    """Of GLUE or SQuAD."""
    task, metrics, manifest = content["task"], content["metrics"], content["manifest"]
    point = Point(**{key: str(value) for key, value in manifest["settings"]["point"].items()}).key
    found = {"table": "table3", "point": point, "score": float(metrics["valid"][content["metric"]])}
    found["from_mnli"] = bool(manifest["inputs"].get("init_from"))
    if task not in TASKS:
        found["whole"] = metrics["valid"].get("total") == QUESTIONS
        return found | {column: metrics["valid"][metric] for metric, column in SQUAD.items()}
    rows, one = content["rows"], TASKS[task]
    found["whole"] = all(rows[split] == one.official[split] for split in ("train", *one.valid_splits))
    columns = HALVES if task == "MNLI" else {"valid": task}
    return found | {column: 100 * metrics[split][one.metric] for split, column in columns.items()}


def _molecules(content: dict) -> dict:
    """Of MoleculeNet; a metric that cannot be computed is null."""
    test, regression = content["metrics"]["test"], content["kind"] == "regression"
    found = {"table": "regressions" if regression else "table1", "point": "", "test": test.get("rows_sha256")}
    found |= {"split": content.get("split", {}).get("kind"), "unreadable": test.get("unreadable", 0)}
    score = test[content["metric"]]
    return found | {title(content["task"]): score if regression or score is None else 100 * score}
