"""Table 3: GLUE and SQuAD of one or more models, beside the paper's."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from pathlib import Path

from recipes import figures, paper
from recipes.report import glue, squad
from recipes.report.page import Block, Picture, Pictures, Section, Text
from recipes.report.reader import Reader
from recipes.tables import Table, Value, number, over_seeds

PICTURED = ("RoBERTa*", "ExLM")  # the paper's rows that ours are comparable with
NOTES = {
    "†": "† not the whole training or development set, so not comparable with the paper; see below.",
    "‡": "‡ started from a model fine-tuned on MNLI.",
}


@dataclass(frozen=True)
class Model:
    """A model's results; None where there are none of the kind."""

    name: str
    folder: Path
    glue: glue.Model | None
    squad: squad.Model | None

    def cells(self) -> tuple[dict[str, str], dict[str, Value]]:
        """The texts of the columns, and the values of those that have one."""
        texts, values = {}, {}
        for column, (task, _) in glue.COLUMNS.items():
            score = self.glue.score(column) if self.glue else None
            if score is not None:
                texts[column], values[column] = score.value.text() + score.marks(), score.value
            elif self.glue and task in self.glue.damaged:
                texts[column] = "damaged"
            else:
                texts[column] = "unfinished" if self._begun(task) else "not run"
        medians = [values[column].centre for column in glue.MEAN_COLUMNS if column in values]
        if medians:
            part = "" if len(medians) == len(glue.MEAN_COLUMNS) else f" ({len(medians)} of 8 tasks)"
            texts["MEAN"] = f"{number(statistics.fmean(medians))}{part}"
            if not part:
                values["MEAN"] = over_seeds([statistics.fmean(medians)])
        for column in squad.COLUMNS:
            value = self.squad.value(column) if self.squad else None
            if value:
                texts[column], values[column] = value.text() + ("" if self.squad.whole() else "†"), value
            else:
                texts[column] = (
                    "damaged" if self.squad else "unfinished" if self._begun("squad") else "not run"
                )
        return texts, values

    def _begun(self, part: str) -> bool:
        """Whether the folder of a task, or of SQuAD, exists in the workflow's layout."""
        return (self.folder / "glue" / part).is_dir() or (part == "squad" and (self.folder / part).is_dir())


def _settings(content: dict) -> dict:
    """model.json, with its grid checked."""
    if "grid" in content:
        for task in glue.TASKS.values():
            glue.points_of(task, content["grid"], content.get("only"))
    return {**content, "seeds": tuple(int(seed) for seed in content.get("seeds", ()))}


def read(name: str, folder: Path, reader: Reader, seeds: tuple[int, ...] = ()) -> Model | None:
    """A model's results of table 3; None if its folder holds none of them.

    Args:
        seeds: that results should have, if the folder's model.json does not say.
    """
    settings = reader.read(folder / "model.json", _settings) or {}
    expected = settings.get("seeds") or seeds
    model = Model(
        name,
        folder,
        glue.read(name, folder, settings, expected, reader),
        squad.read(name, folder, expected, reader),
    )
    return model if model.glue or model.squad or settings else None


def section(models: list[Model], reader: Reader) -> Section:
    """Table 3 with a row per model, a picture, and the details of each model."""
    source, theirs = paper.numbers("table3")["source"], paper.columns("table3")
    columns = paper.numbers("table3")["columns"]
    rows = [[name, *(number(values[c], missing="-") for c in columns)] for name, values in theirs.items()]
    found = {model.name: model.cells() for model in models}
    ours = range(len(rows), len(rows) + len(models))
    rows += [[f"{name} (ours)", *(texts.get(c, "") for c in columns)] for name, (texts, _) in found.items()]
    marks = {mark for texts, _ in found.values() for text in texts.values() for mark in text if mark in NOTES}
    blocks: list[Block] = [
        Text(
            f"The paper's: {source}. Ours: the median over seeds of the point of the grid that is best on "
            "the development set with the first seed, in percent; (n=2 of 5) means that three seeds are "
            "missing. MEAN is over the eight tasks, with MNLI-m."
        ),
        Table(["model", *columns], rows, ours),
        *(Text(text) for mark, text in NOTES.items() if mark in marks),
    ]
    values = {f"{name} (ours)": values for name, (_, values) in found.items() if values}
    if values:
        shown = [column for column in columns if any(column in one for one in values.values())]
        papers = {f"{name} (the paper's)": theirs[name] for name in PICTURED}
        drawn = figures.dots(shown, papers, values, "%; ours: median, and lowest to highest seed")
        blocks.append(Pictures([Picture("table3", "Table 3 as a dot plot", figures.png(drawn))]))
    sections = []
    for model in models:
        parts = glue.details(model.glue, reader) if model.glue else []
        parts += squad.details(model.squad, reader) if model.squad else []
        sections.append(Section(f"Details of {model.name}", parts or [Text("No result yet.")]))
    return Section("Table 3: GLUE and SQuAD 2.0", blocks, sections)
