"""The tables of the study of [MASK], 2, 4, 12 and 13; and the study as a section of the report."""

from __future__ import annotations

from recipes import figures, paper
from recipes.report import comparisons, study_figures
from recipes.report.page import Block, Picture, Pictures, Section, Text
from recipes.report.study import PROBE, TRAIN, Study, Training
from recipes.report.study_figures import MEASURED, PROBE_NOTE, RESULT, cell
from recipes.study.grids import COMPARISONS, EXPERIMENTS, GLUE_TASKS, TARGETS, Run
from recipes.tables import Table, Value, number

COLUMNS = (*GLUE_TASKS, "Avg")


def _rows(name: str):
    """(method, run, the paper's values) of a table of methods."""
    return [
        (row["method"], Run.of(f"{row['run']}-seed-1"), row["values"]) for row in paper.numbers(name)["rows"]
    ]


def _quality(study: Study, name: str, prefix: str) -> list[Block]:
    """A table of methods: GLUE's columns, the paper's and ours; or the paper's and the probe's."""
    glue, rows, table = study.has_glue(), _rows(name), []
    for method, run, values in rows:
        row = [method]
        for column in COLUMNS:
            row.append(number(values.get(column)))
            if glue:
                row.append(cell(study, study.glue(run, column), run, 1, RESULT))
        if not glue:
            row.append(cell(study, study.probe(run), run, 1, PROBE))
            row.append(cell(study, study.probe(run, name="bits"), run, 3, PROBE))
            if name == "table4":
                row.append(cell(study, study.probe(run, run.p), run, 1, PROBE))
                row.append(cell(study, study.probe(run, run.p, "bits"), run, 3, PROBE))
        table.append(row)
    head = ["method"]
    for column in COLUMNS:
        head += [f"{column}, paper", f"{column}, ours"] if glue else [f"{column}, paper"]
    if not glue:
        head += ["recovered, %, ours", "bits per token, ours"]
        if name == "table4":
            head += ["recovered at the model's own p, %, ours", "bits per token at its own p, ours"]
    methods = [method for method, _, _ in rows]
    papers = {method: values["Avg"] for method, _, values in rows}
    measured = {method: study.glue(run, "Avg") if glue else study.probe(run) for method, run, _ in rows}
    what = "average accuracy of four tasks, %"
    panels = [("paper", what, {"paper": papers}, {})]
    panels.append(("ours", what if glue else "masked tokens recovered, %", {}, {"ours": measured}))
    pictures = [
        Picture(
            f"{prefix}{name}-{who}",
            f"{who}: {what}",
            figures.png(figures.dots(methods, theirs, ours, what, who)),
        )
        for who, what, theirs, ours in panels
    ]
    blocks: list[Block] = [] if glue else [Text(PROBE_NOTE)]
    return [*blocks, Pictures(pictures), Table(head, table)]


def table2(study: Study, prefix: str) -> list[Block]:
    return _quality(study, "table2", prefix)


def table4(study: Study, prefix: str) -> list[Block]:
    return _quality(study, "table4", prefix)


def table13(study: Study, prefix: str) -> list[Block]:
    return _quality(study, "table13", prefix)


def table12(study: Study, prefix: str) -> list[Block]:
    rows, table = _rows("table12"), []
    baseline = study.seconds(rows[0][1])
    for method, run, values in rows:
        seconds = study.seconds(run)
        hours = seconds and Value(tuple(s / 3600 for s in seconds.numbers), seconds.expected)
        ratio = seconds.centre / baseline.centre if seconds and baseline and baseline.centre else None
        machines = sorted({training.machine for training in study.trainings(run)} - {""})
        theirs = [number(values["hours"]), number(values["hours"] / rows[0][2]["hours"], 2)]
        table.append(
            [method, theirs[0], cell(study, hours, run, 3), theirs[1], number(ratio, 2), ", ".join(machines)]
        )
    head = ["model", "hours, paper", "hours, ours", "times the MLM, paper", "times the MLM, ours", "machine"]
    return [
        Text("Ours are the hours spent in training steps, without validation and saving."),
        Table(head, table),
    ]


BUILDERS = study_figures.BUILDERS | {
    "table2": table2,
    "table4": table4,
    "table12": table12,
    "table13": table13,
}


def _about(study: Study) -> Table:
    """Size, data, seeds, how many runs are finished, and the time they took."""
    found = (study.reader.read(folder / TRAIN, Training.parse) for folder in study.begun.values())
    trained = [training for training in found if training]
    wall, cpu = sum(one.wall for one in trained), sum(one.cpu for one in trained)
    rows = [
        [name, str(study.settings[name])] for name in ("size", "data", "glue") if study.settings.get(name)
    ]
    rows += [
        ["pre-training seeds", ", ".join(map(str, study.seeds))],
        ["pre-trainings finished", f"{len(trained)} of {len(study.begun)} begun"],
        ["time of the pre-trainings", f"{wall / 3600:.2f} h, CPU time {cpu / 3600:.2f} h"],
    ]
    if machines := sorted({one.machine for one in trained} - {""}):
        rows.append(["machine", ", ".join(machines)])
    return Table(["", ""], rows)


def _finished(study: Study, name: str) -> str:
    """How many of the pre-trainings of a figure, table or comparison are finished."""
    runs = TARGETS[name].runs
    lacking = [run.name for run in runs if not study.trainings(run)]
    if not lacking:
        return f"All of its {len(runs)} pre-trainings are finished."
    finished = f"{len(runs) - len(lacking)} of its {len(runs)} pre-trainings are finished"
    return f"{finished}." + (f" Missing: {', '.join(lacking)}." if len(lacking) <= 5 else "")


def _measured(study: Study, name: str) -> int:
    """How many of the pre-trainings of a figure, table or comparison have what it shows."""
    patterns = MEASURED.get(name, (PROBE, RESULT))
    if name in COMPARISONS:
        patterns = tuple(f"{measure}.json" for measure in COMPARISONS[name].measures)
    return sum(
        any(next(folder.glob(pattern), None) for folder in study.folders(run) for pattern in patterns)
        for run in TARGETS[name].runs
    )


def _shown(study: Study, name: str) -> bool:
    """Whether a target was asked for, or is complete; if nobody asked, whether it has results."""
    targets, found = set(study.settings.get("targets") or ()), _measured(study, name)
    if name in targets or "all" in targets and name in EXPERIMENTS:
        return True
    return found > 0 and (not targets or found == len(TARGETS[name].runs))


def _section(study: Study, name: str, prefix: str) -> Section:
    finished = _finished(study, name)
    if name in COMPARISONS:
        title = f"Comparison: {COMPARISONS[name].title}"
        return Section(
            title, [Text(f"Not in the paper. {finished}")], comparisons.sections(study, name, prefix)
        )
    label = name.replace("figure", "Figure ").replace("table", "Table ")
    status = Text(f"The paper's: {paper.numbers(name)['source']}. {finished}")
    return Section(f"{label}: {EXPERIMENTS[name].title}", [status, *BUILDERS[name](study, prefix)])


def section(study: Study, title: str, prefix: str = "") -> Section:
    """The study, with a section for each figure, table and comparison that was asked for or is complete.

    Args:
        prefix: of the pictures' names.
    """
    shown = [name for name in TARGETS if _shown(study, name)]
    blocks = [
        _about(study),
        Text(
            "Ours are means over seeds, ± the sample standard deviation; (n=3) is the number of seeds, "
            "(n=2 of 3) that one is missing. A number without it is of a single seed."
        ),
    ]
    left = [
        f"{name} ({found} of {len(TARGETS[name].runs)} pre-trainings)" if found else name
        for name in TARGETS
        if name not in shown
        for found in [_measured(study, name)]
    ]
    if left:
        blocks.append(Text(f"Not asked for, and without all of their results: {', '.join(left)}."))
    return Section(title, blocks, [_section(study, name, prefix) for name in shown])
