"""Folders of results as the workflow and the scripts leave them, and reading a report's tables."""

import json
from pathlib import Path

import pandas as pd
import pytest
from lib.data.glue_tasks import TASKS

MANIFEST = {"inputs": {}, "versions": {"python": "3.12.1", "torch": "2.13.0"}, "commit": "c0ffee"}
POINT = {"lr": "5e-5", "batch": "32", "epochs": "3", "warmup": "0.06"}


def write(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def manifest(folder: Path, **settings) -> None:
    write(folder / "manifest.json", {**MANIFEST, "settings": settings, "command": ["run.sh"]})


def glue_result(folder: Path, task: str, score: float, seed: int = 1, **more) -> Path:
    """A result.json of a task with all of GLUE's rows; ``score``, a fraction, for each development set."""
    found = TASKS[task]
    splits = found.valid_splits
    content = {"task": task, "metric": found.metric, "seed": seed}
    content["metrics"] = {split: {found.metric: score} for split in splits}
    content["rows"] = {split: found.official[split] for split in ("train", *splits)}
    content["cut"] = {split: [0, 512] for split in splits}
    inputs = {"checkpoint": "c0ffee", **more.pop("inputs", {})}
    content["manifest"] = {"settings": {"point": more.pop("point", POINT)}, "inputs": inputs}
    write(folder / "result.json", {**content, **more})
    return folder / "result.json"


def squad_result(folder: Path, seed: int, **scores) -> None:
    content = {"task": "squad2", "metric": "f1", "metrics": {"valid": {"total": 11873, **scores}}}
    content["manifest"] = {"settings": {"point": POINT}, "inputs": {}}
    write(folder / "result.json", {**content, "seed": seed})


def molecule_result(folder: Path, dataset: str, seed: int, score: float, kind="classification", **more):
    names = ["auc"] if kind == "classification" else ["rmse", "mae"]
    test = {} if score is None else dict.fromkeys(names, score)
    metrics = {"valid": {}, "test": {**test, **more.pop("test", {})}}
    content = {"task": dataset, "metric": names[0], "metrics": metrics, "seed": seed, "kind": kind}
    write(folder / "result.json", {**content, **more})


def trained(seconds=3600.0, corrupted=None, tokens=10_000, **more):
    measured = corrupted and {"proportion": corrupted, "tokens": tokens}
    cost = {"machine": "a laptop", "flops": None}
    return {"updates": 100, "seconds": seconds, "gpu_seconds": seconds, "corrupted": measured, **cost, **more}


def measured(*results, p=0.15, updates=100) -> dict:
    """A file of fs_plugins.measures, of one checkpoint."""
    return {"rows": [{"updates": updates, "results": [{"mask_prob": p, **one} for one in results]}]}


def records(page) -> list[dict[str, str]]:
    """The rows of all tables of a page, by the heads of their columns."""
    tables = (part for part in page.parts if isinstance(part, pd.DataFrame))
    return [dict(zip(table, row, strict=True)) for table in tables for row in table.to_numpy().tolist()]


def record(page, *cells) -> dict[str, str]:
    """The one row that begins with these cells."""
    [found] = [one for one in records(page) if list(one.values())[: len(cells)] == list(cells)]
    return found


@pytest.fixture
def problems() -> list[str]:
    return []


@pytest.fixture
def add(tmp_path):
    """Adds a pre-training; results are named by their files, and one without ``train`` is unfinished."""

    def added(name, seed=1, rate="default", lr=5e-4, flags=(), **results):
        folder = tmp_path / "study" / name / f"lr-{rate}" / f"seed-{seed}"
        manifest(folder, **dict(flags))
        if "train" in results:
            results["train"]["run"] = {"name": name, "seed": seed, "rate": rate, "lr": lr}
        for file, content in results.items():
            write(folder / f"{file}.json", content)
        return folder

    (tmp_path / "study").mkdir()
    return added
