"""The figures of the study of [MASK]: 3, 4, 5, 8, 9 and 12."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from recipes import figures, paper
from recipes.report.page import Block, Picture, Pictures, Text
from recipes.report.study import ENTROPY, PROBE, TRAIN, Study
from recipes.study.grids import FIGURE12_RATIOS, MASK_RATIOS, REPEATED, STATES, Run
from recipes.tables import Table, Value, number

PROBE_NOTE = (
    "This study has no GLUE, so ours is the probe: the share of masked validation tokens (15%) that the "
    "model recovers, in percent. It is a different quantity from the paper's: compare the pattern, not the "
    "numbers."
)
RESULT = "glue/*/seed-*/result.json"
# name in the log -> title, decimals
CURVES = {
    "loss": ("training loss, bits per masked token", 2),
    "accuracy": ("masked tokens predicted in training, %", 1),
    "ppl": ("training perplexity", 1),
}
Grid = Mapping[tuple[int, float], Value | None]


def corrupted_share(k: int, p: float, tokens: int) -> float:
    """The expected share of the tokens of a sample whose k copies are all masked.

    fairseq masks a fixed number of the N = k * ``tokens`` positions, p N rounded up or down at random: copies
    of a token are drawn without replacement. The share is below p^k, by about k (k - 1) (1 - p) / (2 p N) of
    it.
    """
    positions = k * tokens
    low, above = divmod(p * positions, 1)

    def all_masked(masks: float) -> float:
        return math.prod(max(0.0, masks - i) / (positions - i) for i in range(k))

    return (1 - above) * all_masked(low) + above * all_masked(low + 1)


def standard_errors(percent: float, share: float, tokens: int) -> str:
    """The distance of a measured percentage from a share, in standard errors of as many independent draws."""
    return f"{(percent / 100 - share) / math.sqrt(share * (1 - share) / tokens):+.1f}"


def cell(study: Study, value: Value | None, run: Run, digits: int, *files: str) -> str:
    return value.text(digits) if value else study.missing(run, *files)


def _runs() -> dict[tuple[int, float], Run]:
    return {(k, p): Run("repeated-mlm", k, p) for k, ratios in REPEATED.items() for p in ratios}


def _grid(measure: Callable[[Run], Value | None]) -> Grid:
    return {key: measure(run) for key, run in _runs().items()}


def _picture(name: str, title: str, cells: Grid | paper.Cells, digits: int) -> Picture:
    plain = {key: v.centre if isinstance(v, Value) else v for key, v in cells.items()}
    drawn = figures.grid(plain, title, digits, list(REPEATED), MASK_RATIOS)
    return Picture(name, title, figures.png(drawn))


def _pair(name: str, what: tuple[str, str], papers: paper.Cells, ours: Grid, digits: int) -> Pictures:
    return Pictures(
        [
            _picture(f"{name}-paper", f"paper: {what[0]}", papers, digits),
            _picture(f"{name}-ours", f"ours: {what[1]}", ours, digits),
        ]
    )


def _table(study: Study, papers: paper.Cells, ours: Grid, digits: int, *files: str) -> Table:
    """Rows (k, p): p^k, the paper's, ours."""
    rows = [
        [
            str(k),
            figures.percent(p),
            f"{100 * p**k:.2f}%",
            number(papers.get((k, p)), digits),
            cell(study, ours[k, p], run, digits, *files),
        ]
        for (k, p), run in _runs().items()
    ]
    return Table(["k", "p", "p^k", "paper", "ours"], rows)


def figure3(study: Study, prefix: str) -> list[Block]:
    papers = paper.cells(paper.numbers("figure3")["grid"])
    if study.has_glue():
        ours, what = _grid(lambda run: study.glue(run, "MNLI")), "MNLI accuracy, %"
        note = "MNLI is the mean of the matched and mismatched sets."
    else:
        ours, what, note = _grid(study.probe), "masked tokens recovered, %", PROBE_NOTE
    pictures = _pair(f"{prefix}figure3", ("MNLI accuracy, %", what), papers, ours, 1)
    return [Text(note), pictures, _table(study, papers, ours, 1, PROBE, RESULT)]


def figure4(study: Study, prefix: str) -> list[Block]:
    papers = paper.cells(paper.numbers("figure4")["grid"])
    measured = {key: study.corrupted(run) for key, run in _runs().items()}
    rows = []
    for (k, p), run in _runs().items():
        row = [str(k), figures.percent(p), f"{100 * p**k:.3f}", number(papers.get((k, p)), 2), *[""] * 5]
        if found := measured[k, p]:
            value, tokens = found
            row[5:8] = [value.text(3), f"{tokens:,}", standard_errors(value.centre, p**k, tokens)]
            if length := study.tokens_per_sample(run):
                expected = corrupted_share(k, p, length)
                row[4], row[8] = f"{100 * expected:.3f}", standard_errors(value.centre, expected, tokens)
        else:
            row[5] = study.missing(run)
        rows.append(row)
    head = ["k", "p", "p^k, %", "paper, %", "expected, %", "measured, %", "tokens"]
    head += ["standard errors from p^k", "standard errors from expected"]
    note = (
        "Expected: fairseq masks a fixed number of the positions of a sample, so all copies of a token are "
        "masked slightly less often than p^k; the difference shrinks with the length of the samples."
    )
    ours = {key: found and found[0] for key, found in measured.items()}
    what = ("corrupted semantics, %", "measured in training, %")
    pictures = _pair(f"{prefix}figure4", what, papers, ours, 2)
    return [Text(note), pictures, Table(head, rows)]


def figure5(study: Study, prefix: str) -> list[Block]:
    papers, ours = paper.cells(paper.numbers("figure5")["grid"]), _grid(study.entropy)
    pictures = _pair(f"{prefix}figure5", ("entropy, bits", "entropy, bits"), papers, ours, 2)
    return [pictures, _table(study, papers, ours, 2, ENTROPY)]


def figure8(study: Study, prefix: str) -> list[Block]:
    papers = {task: paper.cells(grid) for task, grid in paper.numbers("figure8")["grids"].items()}
    if not study.has_glue():
        pictures = [
            _picture(f"{prefix}figure8-{task.lower()}-paper", f"paper: {task} accuracy, %", grid, 1)
            for task, grid in papers.items()
        ]
        ours = _grid(study.probe)
        pictures.append(_picture(f"{prefix}figure8-ours", "ours: masked tokens recovered, %", ours, 1))
        note = "The probe has a single grid, that of figure 3; the paper's four are shown beside it."
        return [Text(PROBE_NOTE), Text(note), Pictures(pictures)]
    blocks: list[Block] = []
    for task, grid in papers.items():
        ours = _grid(lambda run, task=task: study.glue(run, task))
        name = f"{prefix}figure8-{task.lower()}"
        blocks += [
            Text(f"{task}:"),
            _pair(name, (f"{task} accuracy, %", f"{task} accuracy, %"), grid, ours, 1),
            _table(study, grid, ours, 1, f"glue/{task.partition('-')[0]}/seed-*/result.json"),
        ]
    return blocks


def figure9(study: Study, prefix: str) -> list[Block]:
    curves = {key: study.curve(run) for key, run in _runs().items()}
    pictures = []
    for name, (title, _) in CURVES.items():
        points = {
            key: [(r["update"], r[name]) for r in records if r.get(name) is not None]
            for key, records in curves.items()
        }
        drawn = figures.curves(points, title, log=name == "ppl")
        pictures.append(Picture(f"{prefix}figure9-{name}", title, figures.png(drawn)))
    last = {key: records[-1] for key, records in curves.items() if records}
    losses = {key: record["loss"] for key, record in last.items() if record.get("loss") is not None}
    title = "training loss at the end, bits per masked token"
    pictures.append(Picture(f"{prefix}figure9-end", title, figures.png(figures.last_points(losses, title))))
    rows = []
    for (k, p), run in _runs().items():
        record = last.get((k, p), {})
        found = [number(record.get(name), digits) for name, (_, digits) in CURVES.items()]
        state = str(record.get("update", "")) or study.missing(run, "metrics.jsonl")
        rows.append([str(k), figures.percent(p), state, *found])
    note = "The paper has no numbers here. Ours are those at the end of training, of one seed."
    head = ["k", "p", "updates", "training loss, bits", "predicted, %", "perplexity"]
    return [Text(note), Pictures(pictures), Table(head, rows)]


def figure12(study: Study, prefix: str) -> list[Block]:
    names = {"entropy": "mean over a token's states", "entropy_posterior": "weighted by the posterior"}
    exlm = {k: {p: Run("exlm", k, p) for p in FIGURE12_RATIOS} for k in STATES}
    mlm = {p: Run("repeated-mlm", 1, p) for p in FIGURE12_RATIOS}
    pictures = []
    for name, title in names.items():
        values = {"MLM": {p: study.entropy(run) for p, run in mlm.items()}}
        for k, runs in exlm.items():
            values[f"ExLM, k = {k}"] = {p: study.entropy(run, name) for p, run in runs.items()}
        found = {label: {100 * p: v for p, v in points.items() if v} for label, points in values.items()}
        drawn = figures.lines(found, title, "entropy, bits")
        pictures.append(
            Picture(f"{prefix}figure12-{name}", f"Entropy by p and k: {title}", figures.png(drawn))
        )
    rows = []
    for p, run in mlm.items():
        ours = cell(study, study.entropy(run), run, 2, ENTROPY)
        rows.append([figures.percent(p), "MLM", "", ours, ""])
        for k in STATES:
            found = [cell(study, study.entropy(exlm[k][p], name), exlm[k][p], 2, ENTROPY) for name in names]
            rows.append([figures.percent(p), f"ExLM, k = {k}", "", *found])
    note = "The paper's figure is a picture without numbers, and does not name its mask ratios."
    head = ["p", "model", "paper", "ours, bits: mean over states", "weighted by the posterior"]
    return [Text(note), Pictures(pictures), Table(head, rows)]


BUILDERS = {
    "figure3": figure3,
    "figure4": figure4,
    "figure5": figure5,
    "figure8": figure8,
    "figure9": figure9,
    "figure12": figure12,
}
# the files of a run that each of them shows
MEASURED = {
    "figure3": (PROBE, RESULT),
    "figure4": (TRAIN,),
    "figure5": (ENTROPY,),
    "figure8": (PROBE, RESULT),
    "figure9": ("metrics.jsonl",),
    "figure12": (ENTROPY,),
    "table12": (TRAIN,),
}
