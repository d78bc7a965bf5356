"""The figures of the study of [MASK]: 3, 4, 5, 8, 9 and 12."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise

from matplotlib import colormaps

from lib import figures, paper
from lib.report.page import Block, Picture, Pictures
from lib.report.study import METRICS, TRAIN, Measure, Study, by_label, entropy, glue, probe
from lib.study.runs import Run, experiments
from lib.tables import Table, Value, escape, number

PROBE_NOTE = (
    "This study has no GLUE, so ours is the probe: the share of masked validation tokens (15%) that the "
    "model recovers, in percent. It is a different quantity from the paper's: compare the pattern, not the "
    "numbers."
)
# name in the log -> title, decimals
CURVES = {
    "loss": ("training loss, bits per masked token", 2),
    "accuracy": ("masked tokens predicted in training, %", 1),
    "ppl": ("training perplexity", 1),
}
RUNS = {(run.k, run.p): run for run in experiments()["figure5"].runs}
KS, MASK_RATIOS = (sorted({key[i] for key in RUNS}) for i in (0, 1))
BY_K_AND_P = {"k": lambda run: str(run.k), "p": lambda run: figures.percent(run.p)}


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


def grid(
    study: Study,
    name: str,
    measure: Measure,
    papers: Mapping[str, float],
    theirs: str,
    ours: str = "",
    more: Mapping[str, Callable[[Run], str]] | None = None,
) -> list[Block]:
    """Cells by k and p: pictures of the paper's and of ours, and a table with more columns."""
    found, digits = paper.cells(papers), min(measure.digits, 2)
    values = {key: measure.value(study, run) for key, run in RUNS.items()}
    centres = {key: value and value.centre for key, value in values.items()}
    pictures = [
        Picture(f"{name}-{who}", figures.grid(cells, f"{who}: {what}", digits, KS, MASK_RATIOS))
        for who, what, cells in (("paper", theirs, found), ("ours", ours or theirs, centres))
    ]
    columns = {
        **BY_K_AND_P,
        "p^k": lambda run: f"{100 * run.p**run.k:.2f}%",
        "paper": lambda run: number(found.get((run.k, run.p)), digits),
        "ours": lambda run: measure.cell(study, run),
        **(more or {}),
    }
    return [Pictures(pictures), Table.of(RUNS.values(), columns)]


def figure3(study: Study, prefix: str) -> list[Block]:
    papers, what = paper.numbers("figure3")["grid"], "MNLI accuracy, %"
    if study.has_glue:
        note = "MNLI is the mean of the matched and mismatched sets."
        return [escape(note), *grid(study, f"{prefix}figure3", glue("MNLI"), papers, what)]
    name, measure = f"{prefix}figure3", probe()[0]
    return [escape(PROBE_NOTE), *grid(study, name, measure, papers, what, "masked tokens recovered, %")]


def _expected(content: dict, run: Run) -> float | None:
    """The share by the length of the samples, before repetition, in percent."""
    words = pairwise(content.get("fairseq_train") or [])
    lengths = [int(after) for word, after in words if word == "--tokens-per-sample"]
    return 100 * corrupted_share(run.k, run.p, lengths[-1]) if lengths else None


def _corrupted(name: str, scale: float = 1) -> Callable[[dict, Run], float | None]:
    return lambda content, run: content["corrupted"] and scale * content["corrupted"][name]


CORRUPTED = Measure("measured in training, %", TRAIN, _corrupted("proportion", 100), 3)
TOKENS = Measure("tokens", TRAIN, _corrupted("tokens"))
EXPECTED = Measure("expected, %", TRAIN, _expected)


def figure4(study: Study, prefix: str) -> list[Block]:
    def tokens(run: Run) -> int:
        found = TOKENS.value(study, run)
        return sum(found.numbers) if found else 0

    def expected(run: Run) -> float | None:
        found = EXPECTED.value(study, run)
        return found and found.centre

    def errors(run: Run, percent: float | None) -> str:
        value = CORRUPTED.value(study, run)
        return standard_errors(value.centre, percent / 100, tokens(run)) if value and percent else ""

    more = {
        "expected, %": lambda run: number(expected(run), 3),
        "tokens": lambda run: f"{tokens(run):,}" if tokens(run) else "",
        "standard errors from p^k": lambda run: errors(run, 100 * run.p**run.k),
        "standard errors from expected": lambda run: errors(run, expected(run)),
    }
    note = (
        "In percent. Expected: fairseq masks a fixed number of the positions of a sample, so all copies of "
        "a token are masked slightly less often than p^k; the difference shrinks with the samples' length."
    )
    papers, what = paper.numbers("figure4")["grid"], "corrupted semantics, %"
    blocks = grid(study, f"{prefix}figure4", CORRUPTED, papers, what, CORRUPTED.title, more)
    return [escape(note), *blocks]


def figure5(study: Study, prefix: str) -> list[Block]:
    papers = paper.numbers("figure5")["grid"]
    return grid(study, f"{prefix}figure5", entropy(), papers, "entropy, bits")


def figure8(study: Study, prefix: str) -> list[Block]:
    found: dict[str, list[Block]] = {}
    for task, papers in paper.numbers("figure8")["grids"].items():
        measure, ours = (glue(task), "") if study.has_glue else (probe()[0], "masked tokens recovered, %")
        name = f"{prefix}figure8-{task.lower()}"
        found[task] = grid(study, name, measure, papers, f"{task} accuracy, %", ours)
    if study.has_glue:
        return [block for task, blocks in found.items() for block in (escape(f"{task}:"), *blocks)]
    note = "The probe has a single grid, that of figure 3; the paper's four are shown beside it."
    pairs = [blocks[0].pictures for blocks in found.values()]
    return [escape(PROBE_NOTE), escape(note), Pictures([*(theirs for theirs, _ in pairs), pairs[0][1]])]


def figure9(study: Study, prefix: str) -> list[Block]:
    curves = {run: study.curve(run) for run in RUNS.values()}
    last = {run: records[-1] for run, records in curves.items() if records}
    names = {run: f"k = {run.k}, p = {figures.percent(run.p)}" for run in curves}
    styles = {}  # colours tell p, dashes and markers k
    for run, name in names.items():
        colour, k = MASK_RATIOS.index(run.p) / len(MASK_RATIOS), KS.index(run.k)
        shape = {"ls": figures.DASHES[k], "marker": figures.MARKERS[k]}
        styles[name] = {"color": colormaps["viridis"](colour), **shape}
    pictures = []
    for key, (title, _) in CURVES.items():
        values = {
            names[run]: {one["update"]: Value((one[key],)) for one in records if one.get(key) is not None}
            for run, records in curves.items()
        }
        log = "y" if key == "ppl" else ""
        figure = figures.lines(values, title, "updates", styles=styles, band=True, log=log)
        pictures.append(Picture(f"{prefix}figure9-{key}", figure))
    title, where = "training loss at the end, bits per masked token", "corrupted semantics $p^k$"
    ends = {
        names[run]: {100 * run.p**run.k: Value((record["loss"],))}
        for run, record in last.items()
        if record.get("loss") is not None
    }
    xticks = [100 * p for p in MASK_RATIOS]
    figure = figures.lines(ends, title, where, xticks=xticks, styles=styles, band=True, log="x")
    pictures.append(Picture(f"{prefix}figure9-end", figure))
    columns = {
        **BY_K_AND_P,
        "updates": lambda run: str(last[run]["update"]) if run in last else study.missing(run, METRICS),
    }
    for key, (title, digits) in CURVES.items():
        columns[title] = lambda run, key=key, digits=digits: number(last.get(run, {}).get(key), digits)
    note = "The paper has no numbers here. Ours are those at the end of training, of one seed."
    return [escape(note), Pictures(pictures), Table.of(curves, columns)]


def figure12(study: Study, prefix: str) -> list[Block]:
    runs = sorted(experiments()["figure12"].runs, key=lambda run: (run.p, run.k))
    mlm, exlm = ([run for run in runs if run.is_mlm == is_mlm] for is_mlm in (True, False))
    first, second, place = entropy(), entropy("entropy_posterior"), lambda run: 100 * run.p
    pictures = []
    for measure, title in ((first, "mean over a token's states"), (second, "weighted by the posterior")):
        values = by_label(study, mlm, first, place) | by_label(study, exlm, measure, place)
        figure = figures.lines(values, f"Entropy, bits: {title}", "p, %")
        pictures.append(Picture(f"{prefix}figure12-{measure.title}", figure))
    columns = {
        "p": lambda run: figures.percent(run.p),
        "model": lambda run: run.label,
        "bits: mean over states": partial(first.cell, study),
        "weighted by the posterior": lambda run: second.cell(study, run) if run.model == "exlm" else "",
    }
    note = "The paper's figure is a picture without numbers, and does not name its mask ratios."
    return [escape(note), Pictures(pictures), Table.of(runs, columns)]


BUILDERS = {one.__name__: one for one in (figure3, figure4, figure5, figure8, figure9, figure12)}
