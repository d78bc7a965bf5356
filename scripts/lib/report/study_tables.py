"""The tables of the study of [MASK], 2, 4, 12 and 13; and the study as a section of the report."""

from __future__ import annotations

from functools import partial

from lib import figures, paper
from lib.report import comparisons, study_figures
from lib.report.page import Block, Picture, Pictures, Section
from lib.report.study import HOURS, TRAIN, Study, glue, probe, times
from lib.report.study_figures import PROBE_NOTE
from lib.study.runs import GLUE_TASKS, QUALITY, QUALITY_MNLI, Run, experiments
from lib.tables import Table, escape, number


def _rows(name: str) -> dict[Run, dict]:
    """The paper's rows of a table of methods by run."""
    runs = {run.name: run for run in experiments()[name].runs}
    return {runs[row["run"]]: row for row in paper.numbers(name)["rows"]}


def quality(study: Study, prefix: str, name: str) -> list[Block]:
    """A table of methods: GLUE's columns, the paper's and ours; or the paper's and the probe's."""
    rows = _rows(name)
    columns = {"method": lambda run: rows[run]["method"]}
    for title in (*GLUE_TASKS, "Avg"):
        columns[f"{title}, paper"] = lambda run, title=title: number(rows[run]["values"].get(title))
        if study.has_glue:
            columns[f"{title}, ours"] = partial(glue(title).cell, study)
    measures = [] if study.has_glue else [*probe(), *(probe(own=True) if name == "table4" else ())]
    columns |= {f"{one.title}, ours": partial(one.cell, study) for one in measures}
    measure, what = (glue("Avg") if study.has_glue else probe()[0]), "average accuracy of four tasks, %"
    theirs = {row["method"]: row["values"]["Avg"] for row in rows.values()}
    ours = {row["method"]: measure.value(study, run) for run, row in rows.items()}
    papers = figures.dots(list(theirs), {"paper": theirs}, {}, what, "paper")
    what = what if study.has_glue else "masked tokens recovered, %"
    found = figures.dots(list(theirs), {}, {"ours": ours}, what, "ours")
    pictures = [Picture(f"{prefix}{name}-paper", papers), Picture(f"{prefix}{name}-ours", found)]
    note = [] if study.has_glue else [escape(PROBE_NOTE)]
    return [*note, Pictures(pictures), Table.of(rows, columns)]


def table12(study: Study, prefix: str) -> list[Block]:
    rows = _rows("table12")
    baseline = next(iter(rows))

    def hours(run: Run) -> float:
        return rows[run]["values"]["hours"]

    columns = {
        "model": lambda run: rows[run]["method"],
        "hours, paper": lambda run: number(hours(run)),
        HOURS.title: partial(HOURS.cell, study),
        "times the MLM, paper": lambda run: number(hours(run) / hours(baseline), 2),
        "times the MLM, ours": lambda run: number(times(study, run, baseline), 2),
        "machine": lambda run: ", ".join(_machines(study.read(run, TRAIN))),
    }
    note = "Ours are the hours spent in training steps, without validation and saving."
    return [escape(note), Table.of(rows, columns)]


def _machines(trainings: list[dict | None]) -> list[str]:
    return sorted({one["machine"] for one in trainings if one and one.get("machine")})


BUILDERS = study_figures.BUILDERS | {
    **{name: partial(quality, name=name) for name in ("table2", "table4", "table13")},
    "table12": table12,
}


def _about(study: Study) -> Table:
    """Size, data, seeds, how many runs are finished, and the time they took."""
    found = [study.reader.read(folder / TRAIN) for folder in study.begun.values()]
    trained = [training for training in found if training]
    wall, cpu = (sum(one.get(f"{kind}_seconds") or 0 for one in trained) / 3600 for kind in ("wall", "cpu"))
    rows = {
        **{name: study.settings.get(name) for name in ("size", "data", "glue")},
        "pre-training seeds": ", ".join(map(str, sorted({run.seed for run in study.begun}))),
        "pre-trainings finished": f"{len(trained)} of {len(study.begun)} begun",
        "time of the pre-trainings": f"{wall:.2f} h, CPU time {cpu:.2f} h",
        "machine": ", ".join(_machines(trained)),
    }
    return Table(["", ""], [[name, str(value)] for name, value in rows.items() if value])


def _lacking(study: Study, name: str) -> list[str]:
    """The pre-trainings that have nothing of what a figure, table or comparison shows."""
    files = {f"{measure}.json" for measure in study.experiments[name].measures} or {TRAIN}
    if {QUALITY, QUALITY_MNLI} & set(study.experiments[name].measures):
        files = {probe()[0].file, glue("Avg").file}
    return [
        run.name
        for run in study.experiments[name].runs
        if not any(next(folder.glob(file), None) for folder in study.folders(run) for file in files)
    ]


def _shown(study: Study) -> list[str]:
    """The targets that were asked for, and those that are complete.

    If none was asked for, as where runs were asked for by their files: the one that has most of the runs, of
    equals the one that lacks the fewest.
    """
    known = study.experiments
    lacking = {name: len(_lacking(study, name)) for name in known}
    found = {name: len(known[name].runs) - lacks for name, lacks in lacking.items()}
    asked = set(study.settings.get("targets") or ())
    if not asked and any(found.values()):
        asked = {max(known, key=lambda name: (found[name], -lacking[name]))}
    return [name for name in known if name in asked or not lacking[name]]


def _counted(study: Study, name: str) -> str:
    runs = len(study.experiments[name].runs)
    return f"{runs - len(_lacking(study, name))} of {runs} pre-trainings"


def _section(study: Study, name: str, prefix: str) -> Section:
    title, lacking = study.experiments[name].title, _lacking(study, name)
    status = f"There are results of {_counted(study, name)}."
    status += f" Missing: {', '.join(lacking)}." if 0 < len(lacking) <= 5 else ""
    if not study.experiments[name].of_the_paper:
        about = escape(f"Not in the paper. {status}")
        return Section(f"Comparison: {title}", [about, *comparisons.blocks(study, name, prefix)])
    number = name.replace("figure", "Figure ").replace("table", "Table ")
    about = escape(f"The paper's: {paper.numbers(name)['source']}. {status}")
    return Section(f"{number}: {title}", [about, *BUILDERS[name](study, prefix)])


def section(study: Study, title: str, prefix: str = "") -> Section:
    """The study, with a section for each figure, table and comparison of :func:`_shown`.

    Args:
        prefix: of the pictures' names.
    """
    shown = _shown(study)
    note = (
        "Ours are means over seeds, ± the sample standard deviation; (n=3) is the number of seeds, "
        "(n=2 of 3) that one is missing. A number without it is of a single seed."
    )
    blocks = [_about(study), escape(note)]
    if left := [f"{name} ({_counted(study, name)})" for name in study.experiments if name not in shown]:
        blocks.append(escape(f"Not asked for, and without all of their results: {', '.join(left)}."))
    known = {run.name for name in shown for run in study.experiments[name].runs}
    if others := sorted({run.name for run in study.begun} - known):
        blocks.append(escape(f"Pre-trainings that none of the sections has: {', '.join(others)}."))
    return Section(title, blocks, [_section(study, name, prefix) for name in shown])
