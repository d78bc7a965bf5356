"""The tables of the study of [MASK], 2, 4, 12 and 13; and the study as a section of the report."""

from __future__ import annotations

from functools import partial

import pandas as pd

from lib import figures, paper
from lib.files import MANIFEST
from lib.report import comparisons, frame, study_figures
from lib.report.page import Block, Section
from lib.report.study import HOURS, Study, probe
from lib.report.study_figures import PROBE_NOTE, RECOVERED
from lib.study.results import EXAMPLE
from lib.study.runs import GLUE_TASKS, Run, Target, targets
from lib.tables import number, table


def _rows(name: str) -> dict[Run, dict]:
    """The paper's rows of a table of methods by run."""
    runs = {run.name: run for run in targets()[name].runs}
    return {runs[row["run"]]: row for row in paper.numbers(name)["rows"]}


def quality(study: Study, name: str, target: str) -> list[Block]:
    """A table of methods: GLUE's columns, the paper's and ours; or the paper's and the probe's."""
    rows = _rows(target)
    columns = {"method": lambda run: rows[run]["method"]}
    for title in (*GLUE_TASKS, "Avg"):
        columns[f"{title}, paper"] = lambda run, title=title: number(rows[run]["values"].get(title))
        if study.has_glue:
            columns[f"{title}, ours"] = lambda run, title=title: (
                value.text() if (value := study.glue(run, title)) else study.missing(run)
            )
    measures = [] if study.has_glue else [*probe(), *(probe(own=True) if target == "table4" else ())]
    columns |= {f"{one.title}, ours": lambda run, one=one: study.cell(run, one) for one in measures}
    what = "average accuracy of four tasks, %"
    theirs = {row["method"]: row["values"]["Avg"] for row in rows.values()}
    ours = {
        row["method"]: study.glue(run, "Avg") if study.has_glue else study.value(run, probe()[0])
        for run, row in rows.items()
    }
    pictures = {
        f"{name}-paper": figures.dots(list(theirs), {"paper": theirs}, {}, what, "paper"),
        f"{name}-ours": figures.dots(
            list(theirs), {}, {"ours": ours}, what if study.has_glue else RECOVERED, "ours"
        ),
    }
    return [*([] if study.has_glue else [PROBE_NOTE]), pictures, table(rows, columns)]


def table12(study: Study, name: str) -> list[Block]:
    rows = _rows("table12")
    values = {run: study.value(run, HOURS) for run in rows}
    baseline = next(iter(rows))

    def times(run: Run) -> float | None:
        return values[run].centre / values[baseline].centre if values[baseline] and values[run] else None

    hours = {run: row["values"]["hours"] for run, row in rows.items()}
    columns = {
        "model": lambda run: rows[run]["method"],
        "GPU hours, paper": lambda run: number(hours[run]),
        HOURS.title: lambda run: study.cell(run, HOURS),
        "times the MLM, paper": lambda run: number(hours[run] / hours[baseline], 2),
        "times the MLM, ours": lambda run: number(times(run), 2),
    }
    note = (
        "Ours are the hours spent in training steps, without validation and saving, times the GPUs (on a "
        "CPU, the processes) of the training."
    )
    return [note, table(rows, columns)]


BUILDERS = study_figures.BUILDERS | {
    **{name: partial(quality, target=name) for name in ("table2", "table4", "table13")},
    "table12": table12,
}


def _lacking(study: Study, target: Target) -> list[str]:
    """The pre-trainings that have nothing of what a figure, table or comparison shows."""
    measures = set(target.measures) or {"train"}
    if measures & {"quality", "quality-mnli"}:
        measures = {"probe", "result"}
    elif "example" in measures:
        return [
            run.name for run in target.runs if not any((f / EXAMPLE).exists() for f in study.folders(run))
        ]
    found = set(study.frame["name"][study.frame["measure"].isin(measures)])
    return [run.name for run in target.runs if run.name not in found]


def _section(study: Study, target: Target, prefix: str) -> Section:
    lacking, name = _lacking(study, target), target.name
    status = f"There are results of {len(target.runs) - len(lacking)} of {len(target.runs)} pre-trainings."
    status += f" Missing: {', '.join(lacking)}." if 0 < len(lacking) <= 5 else ""
    if not target.of_the_paper:
        blocks = comparisons.blocks(study, target, f"{prefix}{name}")
        return Section(f"Comparison: {target.title}", [f"Not in the paper. {status}", *blocks])
    title = name.replace("figure", "Figure ").replace("table", "Table ")
    about = f"The paper's: {paper.numbers(name)['source']}. {status}"
    return Section(f"{title}: {target.title}", [about, *BUILDERS[name](study, f"{prefix}{name}")])


def section(study: Study, title: str, prefix: str = "") -> Section:
    """The study, with a section for each figure, table and comparison that was asked for or is complete.

    Args:
        prefix: of the pictures' names.
    """
    known = {name: one for name, one in study.targets.items() if one.of_the_study or not one.of_the_paper}
    lacking = {name: len(_lacking(study, target)) for name, target in known.items()}
    shown = {name for name, lacks in lacking.items() if not lacks} | set(study.settings.get("targets", ()))
    manifests = [frame.read(path, []) for path in sorted((study.output / "study").glob(f"*/*/*/{MANIFEST}"))]
    about = {name: study.settings.get(name) for name in ("size", "data", "glue")}
    about["pre-training seeds"] = ", ".join(map(str, sorted(set(study.all["seed"]))))
    finished = (study.all["metric"] == "gpu_seconds").sum()
    about["pre-trainings finished"] = f"{finished} of {len(manifests)} begun"
    trained = [
        frame.read(path.with_name("train.json"), [])
        for path in sorted(set(study.all["folder"] / "train.json"))
    ]
    about["machine"] = ", ".join(sorted({one["machine"] for one in trained if one.get("machine")}))
    about["commit"] = ", ".join(sorted({one.get("commit", "unknown") for one in manifests}))
    rows = [(name, value) for name, value in about.items() if value]
    note = (
        "Ours are means over seeds, ± the sample standard deviation; (n=3) is the number of seeds, "
        "(n=2 of 3) that one is missing. A number without it is of a single seed."
    )
    sections = [_section(study, target, prefix) for name, target in known.items() if name in shown]
    return Section(title, [pd.DataFrame(rows, columns=["", " "]).astype(str), note], sections)
