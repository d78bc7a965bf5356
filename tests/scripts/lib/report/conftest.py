"""Folders of results as the workflow and the scripts leave them, and reading a report's tables."""

from functools import partial
from pathlib import Path

import pandas as pd
import pytest
from lib.glue import TASKS

from tests.support.builders import write_file

POINT = {"lr": "5e-5", "batch": "32", "epochs": "3", "warmup": "0.06"}


def glue_result(folder: Path, task: str, score: float, seed: int = 1, **more) -> Path:
    """A result.json of a task with all of GLUE's rows; ``score``, a fraction, for each development set."""
    found = TASKS[task]
    splits = found.valid_splits
    content = {"benchmark": "glue", "task": task, "metric": found.metric, "seed": seed}
    content["metrics"] = {split: {found.metric: score} for split in splits}
    content["rows"] = {split: found.official[split] for split in ("train", *splits)}
    content["manifest"] = {"settings": {"point": more.pop("point", POINT)}}
    return write_file(folder / "result.json", {**content, **more})


def squad_result(folder: Path, seed: int, **scores) -> None:
    content = {"benchmark": "squad", "task": "squad2", "metric": "f1"}
    content["metrics"] = {"valid": {"total": 11873, **scores}}
    content["manifest"] = {"settings": {"point": POINT}}
    write_file(folder / "result.json", {**content, "seed": seed})


def molecule_result(folder: Path, dataset: str, seed: int, valid, test, kind="classification", **more):
    """``valid`` and ``test`` are scores; ``more`` is of the test set, but for ``split``."""
    metric = "auc" if kind == "classification" else "rmse"
    content = {name: more.pop(name) for name in ("split",) if name in more}
    scores = {} if test is None else {metric: test}
    about = {"labels": 30, "properties": {"logS": scores}, "rows_sha256": "x"}
    content["metrics"] = {"valid": {metric: valid}, "test": {**about, **scores, **more}}
    content |= {"benchmark": "moleculenet", "task": dataset, "metric": metric, "seed": seed}
    write_file(folder / "result.json", content)


def trained(seconds=3600.0, corrupted=None, **more):
    shares = {"corrupted": corrupted and {"proportion": corrupted}}
    return {"updates": 100, "seconds": seconds, "gpu_seconds": seconds, **shares, **more}


def pretrain(output: Path, name, seed=1, **results) -> Path:
    """The folder of one; results are named by their files, and without ``train`` it is unfinished."""
    folder = output / "study" / name / f"seed-{seed}"
    write_file(folder / "manifest.json", {"commit": "c0ffee"})
    for file, content in results.items():
        write_file(folder / f"{file}.json", content)
    return folder


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
def add(tmp_path):
    return partial(pretrain, tmp_path)
