"""SQuAD's part of table 3: the scores of a model's fine-tunings, one scores.json per seed."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from recipes.report.page import Block, Text
from recipes.report.reader import Reader
from recipes.tables import Table, Value, number, over_seeds

RESULT = "scores.json"
QUESTIONS = 11_873  # of SQuAD 2.0's development set
COLUMNS = {"EM": "exact", "F1": "f1"}  # of table 3 -> official names
MEASURES = ("exact", "f1", "HasAns_f1", "NoAns_f1", "best_exact", "best_f1")


def _parse(content: dict) -> dict[str, float]:
    content["exact"], content["f1"], content["total"]  # noqa: B018  (what every evaluation has)
    return {name: float(content[name]) for name in (*MEASURES, "threshold", "total") if name in content}


@dataclass
class Model:
    """The scores of a model: folder of a seed -> measure, in percent -> number."""

    name: str
    folder: Path
    expected: int
    scores: dict[Path, dict[str, float]] = field(default_factory=dict)

    def value(self, column: str) -> Value | None:
        """The median over seeds of EM or F1, at the threshold of the training."""
        found = (scores[COLUMNS[column]] for scores in self.scores.values())
        return over_seeds(found, self.expected, median=True)

    def whole(self) -> bool:
        """Whether all were scored on all questions of the development set."""
        return all(scores["total"] == QUESTIONS for scores in self.scores.values())


def read(name: str, folder: Path, expected: tuple[int, ...], reader: Reader) -> Model | None:
    """The SQuAD results under a folder; None if there are none."""
    paths = sorted(folder.rglob(RESULT))
    model = Model(name, folder, len(expected) or len(paths))
    for path in paths:
        scores = reader.read(path, _parse)
        if scores is not None:
            model.scores[path.parent] = scores
    return model if paths else None


def details(model: Model, reader: Reader) -> list[Block]:
    """A row per seed, the medians last; empty where a run has no such questions."""
    if not model.scores:
        return []
    rows = []
    for folder, scores in model.scores.items():
        reader.record(folder)
        seed = re.fullmatch(r"seed-(\d+)", folder.name)
        measures = [number(scores.get(measure), 2) for measure in MEASURES]
        rows.append(
            [seed[1] if seed else str(folder), f"{int(scores['total']):,} of {QUESTIONS:,}", *measures]
        )
    if len(rows) > 1:
        medians = [over_seeds((s.get(m) for s in model.scores.values()), median=True) for m in MEASURES]
        rows.append(["median", "", *(number(value and value.centre, 2) for value in medians)])
    ours = {len(rows) - 1} if len(rows) > 1 else ()
    note = "SQuAD: best_exact and best_f1 are at the thresholds that are best on this very set."
    return [Text(note), Table(["seed", "questions", *MEASURES], rows, ours)]
