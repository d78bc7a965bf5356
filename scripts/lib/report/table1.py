"""Table 1: ROC-AUC of fine-tuned models on MoleculeNet, beside the paper's; regressions by RMSE."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from functools import partial
from pathlib import Path

from lib import paper
from lib.folders import MANIFEST
from lib.moleculenet.datasets import KNOWN
from lib.report.finetunings import MEAN, Column, Finetuning, Model, beside_paper
from lib.report.page import Section, remarks
from lib.report.reader import Reader
from lib.tables import Table, Value, escape

RESULT = "metrics.json"  # of scripts/finetune_moleculenet.sh and scripts/baseline_moleculenet.py
METRICS = {"classification": ("auc", 100, 1), "regression": ("rmse", 1, 3)}  # kind -> name, scale, digits
PICTURED = ("SMILES-BERT*", "ExLM")  # the paper's rows that ours are comparable with


def _parse(folder: Path, content: dict) -> Finetuning:
    """A result; its score on the test set is None if it is not defined."""
    test, split, kind = content["test"], content.get("split") or {}, content["kind"]
    if kind not in METRICS:
        raise ValueError(f"unknown kind {kind!r}")
    metric, scale, _ = METRICS[kind]
    score, seed = test.get(metric), split.get("seed")
    about = {
        "kind": kind,
        "molecules": test.get("molecules"),
        "rows": test.get("rows_sha256"),  # of the test set's rows and labels
        "unreadable": test.get("unreadable", 0),
        "split": f"{split.get('kind')} split" + ("" if seed is None else f" {seed}"),
    }
    scores = {"test": None if score is None else scale * float(score)}
    return Finetuning(folder, content["dataset"], content["seed"], scores, about)


def read(name: str, folder: Path, reader: Reader, seeds: tuple[int, ...] = ()) -> Model:
    """The MoleculeNet results under a folder.

    Args:
        seeds: that results should have, if the folder's model.json does not say.

    Raises:
        UserError: if two results are of one set and seed.
    """
    asked = reader.read(folder / "model.json", lambda content: tuple(int(seed) for seed in content["seeds"]))
    model = Model(name, folder, {}, asked or seeds)
    model.read(RESULT, _parse, reader)
    for runs in model.runs.values():
        for run in runs[()].values():
            if (run.folder / MANIFEST).exists():  # a baseline has none
                reader.record(run.folder)
    return model


def _of(model: Model, kind: str) -> dict[str, list[Finetuning]]:
    """The results by set."""
    found = {dataset: list(runs[()].values()) for dataset, runs in model.runs.items()}
    return {dataset: runs for dataset, runs in found.items() if runs[0].about["kind"] == kind}


def _remarks(models: list[Model], kind: str, compared: Collection[str]) -> list[str]:
    """What keeps the numbers of a column from being compared.

    Args:
        compared: the sets that the paper has, by scaffold splits (or by Uni-Mol's files, which are split so).
    """
    found: list[str] = []
    tests: dict[str, dict] = defaultdict(dict)
    every = [(model, dataset, runs) for model in models for dataset, runs in _of(model, kind).items()]
    hashed = all(run.about["rows"] for _, _, runs in every for run in runs)
    for model, dataset, runs in every:
        if unread := max(run.about["unreadable"] for run in runs):
            found.append(
                f"{model.name}, {dataset}: {unread} molecules of the test set, which it cannot read, are "
                "predicted as the mean of the training labels"
            )
        for run in runs:
            if run.scores["test"] is None:
                metric = METRICS[kind][0].upper()
                found.append(f"{model.name}, {dataset}, seed {run.seed}: no {metric} on the test set")
            split = run.about["split"]
            rows = run.about["rows"] if hashed else (split, run.about["molecules"])
            tests[dataset].setdefault(rows, f"{model.name} (seed {run.seed}, {split})")
        if dataset in compared and any(run.about["split"].startswith("random") for run in runs):
            found.append(f"{model.name}, {dataset}: a random split; the paper's are by scaffold")
    for dataset, groups in tests.items():
        if len(groups) > 1:
            one, other = list(groups.values())[:2]
            found.append(f"{dataset}: not all results are of the same test molecules: {one}, but {other}")
    return [remarks(found)] if found else []


def _cell(model: Model, column: Column, kind: str, wanted: int) -> tuple[str, Value | None]:
    value = model.value(column.task, column.score, seeds=wanted) if column.task in _of(model, kind) else None
    return value.text(METRICS[kind][2]) if value else model.missing(column.task), value


def sections(models: list[Model]) -> list[Section]:
    """Table 1 of the classifications, and a table of the regressions, if there are any.

    Where nobody said which seeds a result should have, it should have those that any of its table has.
    """
    result = []
    for kind in METRICS:
        members = [m for m in models if _of(m, kind) or (kind == "classification" and not m.runs)]
        if not members:
            continue
        present = {dataset for model in members for dataset in _of(model, kind)}
        wanted = len({run.seed for m in members for runs in _of(m, kind).values() for run in runs})
        cell = partial(_cell, kind=kind, wanted=wanted)
        if kind == "regression":
            names = sorted(present)
            rows = [[m.name, *(cell(m, Column(c, c, "test"))[0] for c in names)] for m in members]
            about = "RMSE in the units of the labels, test set, mean ± standard deviation over seeds."
            blocks = [Table(["model", *names], rows, range(len(rows))), *_remarks(members, kind, ())]
            result.append(Section("Regressions of molecular properties", [escape(about), *blocks]))
            continue
        theirs = paper.numbers("table1")["columns"]
        columns = {
            name: Column(KNOWN[name].title if name in KNOWN else name, name, "test")
            for name in [*theirs, *sorted(present - set(theirs))]
        }
        columns[MEAN] = Column("Mean")
        xlabel = "ROC-AUC, %; ours: mean ± standard deviation"
        blocks = beside_paper("table1", members, columns, theirs, cell, PICTURED, xlabel)
        about = (
            f"The paper's: {paper.numbers('table1')['source']}. Ours: ROC-AUC in % on the test set, mean ± "
            "standard deviation over seeds; (n=3) is their number."
        )
        blocks = [escape(about), blocks[0], *_remarks(members, kind, theirs), *blocks[1:]]
        result.append(Section("Table 1: MoleculeNet", blocks))
    return result
