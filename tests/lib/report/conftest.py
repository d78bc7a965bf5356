"""Folders of results as the workflow and the scripts leave them, and reading a report's tables."""

import json
from pathlib import Path

import pytest
from lib.glue.tasks import TASKS
from lib.report.reader import Reader

MADE_OF = {"inputs": {}, "versions": {"python": "3.12.1", "torch": "2.13.0"}, "commit": "c0ffee"}


def write(path: Path, content) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def made_of(folder: Path, *command: str) -> None:
    write(folder / "manifest.json", {**MADE_OF, "settings": {}, "command": list(command)})


def glue_result(folder: Path, task: str, score: float, seed: int = 1, **more) -> Path:
    """A result.json of a task with all of GLUE's rows; ``score``, a fraction, for each development set."""
    found = TASKS[task]
    splits = found.valid_splits
    content = {
        "task": task,
        "metric": found.metric,
        "scores": {split: {found.metric: score} for split in splits},
        "rows": {split: found.official[split] for split in splits},
        "cut": {},
        "train_rows": found.official["train"],
        "point": {"lr": "5e-5", "batch": "32", "epochs": "3", "warmup": "0.06"},
        "seed": seed,
        "inputs": {"checkpoint": "c0ffee", "data": "beef"},
    }
    write(folder / "result.json", {**content, **more})
    return folder / "result.json"


def molecule_result(folder: Path, dataset: str, seed: int, score: float, kind="classification", **more):
    metric = {"auc": score} if kind == "classification" else {"rmse": score, "mae": score}
    test = {**metric, **more.pop("test", {})}
    content = {"dataset": dataset, "seed": seed, "kind": kind, "valid": {}, "test": test, **more}
    write(folder / "metrics.json", content)


def trained(seconds=3600.0, corrupted=None, tokens=10_000, **more):
    measured = corrupted and {"proportion": corrupted, "tokens": tokens}
    cost = {"wall_seconds": 1800, "cpu_seconds": 3600, "machine": "a laptop", "flops": None}
    return {"updates": 100, "training_seconds": seconds, "corrupted": measured, **cost, **more}


def rows_of(table) -> dict[str, list[str]]:
    """The rows of a table by their first cell."""
    return {row[0]: list(row[1:]) for row in table.rows}


def blocks_of(section, kind) -> list:
    """The blocks of one kind of a section and of those below it."""
    found = [block for block in section.blocks if isinstance(block, kind)]
    return found + [block for below in section.sections for block in blocks_of(below, kind)]


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def add(tmp_path):
    """Adds a run's folder; results are named by their files."""

    def added(key, **results):
        made_of(tmp_path / "study" / key, "bash", "pretrain.sh", key)
        for name, content in results.items():
            write(tmp_path / "study" / key / f"{name}.json", content)
        return tmp_path / "study" / key

    (tmp_path / "study").mkdir()
    return added
