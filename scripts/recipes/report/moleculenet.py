"""Table 1: ROC-AUC of fine-tuned models on MoleculeNet's test sets, beside the paper's; regressions by RMSE.

A model is a folder with any number of metrics.json, as scripts/finetune_moleculenet.sh and
scripts/baseline_moleculenet.py write them; which set and seed each belongs to, it says itself.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from recipes import figures, paper
from recipes.command_line import RecipeError
from recipes.moleculenet.datasets import KNOWN
from recipes.report.page import Block, Picture, Pictures, Remarks, Section, Text
from recipes.report.reader import Reader
from recipes.tables import Table, Value, number, over_seeds

RESULT = "metrics.json"
CLASSIFICATION, REGRESSION = "classification", "regression"
PICTURED = ("SMILES-BERT*", "ExLM")  # the paper's rows that ours are comparable with


@dataclass(frozen=True)
class Finetuning:
    """A result on one set; ``score`` is the AUC or the RMSE on the test set, None if it is not defined."""

    folder: Path
    dataset: str
    seed: int | None
    kind: str
    score: float | None
    molecules: int | None
    rows: str | None  # hash of the test set's rows and labels
    split: tuple[str | None, int | None]  # kind and seed

    @classmethod
    def parse(cls, folder: Path, content: dict) -> Finetuning:
        test, split = content["test"], content.get("split") or {}
        if content["kind"] not in (CLASSIFICATION, REGRESSION):
            raise ValueError(f"unknown kind {content['kind']!r}")
        score = test.get("auc" if content["kind"] == CLASSIFICATION else "rmse")
        return cls(
            folder,
            content["dataset"],
            content["seed"],
            content["kind"],
            None if score is None else float(score),
            test.get("molecules"),
            test.get("rows_sha256"),
            (split.get("kind"), split.get("seed")),
        )

    @property
    def split_text(self) -> str:
        kind, seed = self.split
        return f"{kind} split" + ("" if seed is None else f" {seed}")


@dataclass
class Model:
    """A model's results: set -> seed.

    Attributes:
        found: whether there are any results, damaged or not.
        expected: seeds that each set should have; empty if that is not known.
        lost: names of the folders of damaged results, that of the set among them.
    """

    name: str
    folder: Path
    results: dict[str, dict[int | None, Finetuning]] = field(default_factory=lambda: defaultdict(dict))
    found: bool = False
    expected: tuple[int, ...] = ()
    lost: set[str] = field(default_factory=set)

    def of(self, kind: str) -> dict[str, list[Finetuning]]:
        found = {name: list(seeds.values()) for name, seeds in self.results.items()}
        return {name: runs for name, runs in found.items() if runs[0].kind == kind}

    def missing(self, dataset: str) -> str:
        if dataset in self.lost:
            return "damaged"
        return "unfinished" if (self.folder / dataset).is_dir() else "not run"


def _seeds(content: dict) -> tuple[int, ...]:
    return tuple(int(seed) for seed in content["seeds"])


def read(name: str, folder: Path, reader: Reader, seeds: tuple[int, ...] = ()) -> Model:
    """The MoleculeNet results under a folder.

    Args:
        seeds: that results should have, if the folder's model.json does not say.

    Raises:
        RecipeError: if two results are of one set and seed.
    """
    model = Model(name, folder, expected=reader.read(folder / "model.json", _seeds) or seeds)
    for path in sorted(folder.rglob(RESULT)):
        model.found = True
        run = reader.read(path, lambda content, path=path: Finetuning.parse(path.parent, content))
        if run is None:
            model.lost |= set(path.relative_to(folder).parts)
            continue
        seeds = model.results[run.dataset]
        if run.seed in seeds:
            raise RecipeError(
                f"{name}: seed {run.seed} of {run.dataset} is in {seeds[run.seed].folder} and in "
                f"{run.folder}: give the folder of a single model"
            )
        seeds[run.seed] = run
        if (run.folder / "made_of.json").exists():  # a baseline has none
            reader.record(run.folder)
    return model


def _values(model: Model, kind: str, wanted: int) -> dict[str, Value]:
    """Set -> the mean over seeds; the AUC in percent."""
    scale = 100 if kind == CLASSIFICATION else 1
    values = {}
    for dataset, runs in model.of(kind).items():
        scores = (None if run.score is None else scale * run.score for run in runs)
        if value := over_seeds(scores, len(model.expected) or wanted):
            values[dataset] = value
    return values


def _remarks(models: list[Model], kind: str, wanted: int, compared: Collection[str]) -> list[str]:
    """What keeps the numbers of a column from being compared.

    Args:
        compared: the sets that the paper has, by scaffold splits (or by Uni-Mol's files, which are split so).
    """
    remarks: list[str] = []
    tests: dict[str, dict] = defaultdict(dict)
    every = [run for model in models for runs in model.of(kind).values() for run in runs]
    hashed = all(run.rows for run in every)
    for model in models:
        for dataset, runs in model.of(kind).items():
            finished = sum(run.score is not None for run in runs)
            if finished < (asked := len(model.expected) or wanted):
                remarks.append(f"{model.name}, {dataset}: {finished} of {asked} seeds")
            for run in runs:
                if run.score is None:
                    metric = "AUC" if kind == CLASSIFICATION else "RMSE"
                    remarks.append(f"{model.name}, {dataset}, seed {run.seed}: no {metric} on the test set")
                rows = run.rows if hashed else (run.split_text, run.molecules)
                tests[dataset].setdefault(rows, f"{model.name} (seed {run.seed}, {run.split_text})")
            if dataset in compared and any(run.split[0] == "random" for run in runs):
                remarks.append(f"{model.name}, {dataset}: a random split; the paper's are by scaffold")
    for dataset, groups in tests.items():
        if len(groups) > 1:
            one, other = list(groups.values())[:2]
            remarks.append(f"{dataset}: not all results are of the same test molecules: {one}, but {other}")
    return remarks


def _classification(models: list[Model], wanted: int) -> list[Block]:
    numbers, theirs = paper.numbers("table1"), paper.columns("table1")
    present = {dataset for model in models for dataset in model.of(CLASSIFICATION)}
    columns = [*numbers["columns"], *sorted(present - set(numbers["columns"]))]
    rows = []
    for name, values in theirs.items():
        cells = [number(values.get(column), missing="-") for column in columns]
        rows.append([name, *cells, number(numbers["mean"].get(name), missing="-")])
    ours = range(len(rows), len(rows) + len(models))
    found = {f"{model.name} (ours)": _values(model, CLASSIFICATION, wanted) for model in models}
    for model, (name, values) in zip(models, found.items(), strict=True):
        cells = [values[c].text() if c in values else model.missing(c) for c in columns]
        whole = all(column in values for column in numbers["columns"])
        mean = statistics.fmean(values[c].centre for c in numbers["columns"]) if whole else None
        rows.append([name, *cells, number(mean, missing="-")])
    titles = {column: KNOWN[column].title if column in KNOWN else column for column in columns}
    remarks = _remarks(models, CLASSIFICATION, wanted, numbers["columns"])
    pictures = []
    if shown := [column for column in columns if column in present]:
        papers = {f"{name} (the paper's)": theirs[name] for name in PICTURED}
        drawn = figures.dots(
            [titles[column] for column in shown],
            {name: {titles[c]: values.get(c) for c in shown} for name, values in papers.items()},
            {name: {titles[c]: values.get(c) for c in shown} for name, values in found.items()},
            "ROC-AUC, %; ours: mean ± standard deviation",
        )
        pictures.append(Pictures([Picture("table1", "Table 1 as a dot plot", figures.png(drawn))]))
    return [
        Text(
            f"The paper's: {numbers['source']}. Ours: ROC-AUC in % on the test set, mean ± standard "
            "deviation over seeds; (n=3) is their number."
        ),
        Table(["model", *titles.values(), "Mean"], rows, ours),
        *([Remarks(remarks)] if remarks else []),
        *pictures,
    ]


def _regression(models: list[Model], wanted: int) -> list[Block]:
    found = {model.name: _values(model, REGRESSION, wanted) for model in models}
    columns = sorted({dataset for model in models for dataset in model.of(REGRESSION)})
    rows = [
        [
            model.name,
            *(found[model.name][c].text(3) if c in found[model.name] else model.missing(c) for c in columns),
        ]
        for model in models
    ]
    remarks = _remarks(models, REGRESSION, wanted, ())
    return [
        Text("RMSE in the units of the labels, test set, mean ± standard deviation over seeds."),
        Table(["model", *columns], rows, range(len(rows))),
        *([Remarks(remarks)] if remarks else []),
    ]


def sections(models: list[Model]) -> list[Section]:
    """Table 1 of the classifications, and a table of the regressions, if there are any.

    Where nobody said which seeds a result should have, it should have those that any of its table has.
    """
    kinds = {
        CLASSIFICATION: ("Table 1: MoleculeNet", _classification),
        REGRESSION: ("Regressions of molecular properties", _regression),
    }
    result = []
    for kind, (title, build) in kinds.items():
        members = [m for m in models if m.of(kind) or (kind == CLASSIFICATION and not m.results)]
        found = {run.seed for m in members for runs in m.of(kind).values() for run in runs}
        if members:
            result.append(Section(title, build(members, len(found))))
    return result
