"""The figures of the study of [MASK], 3, 4, 5, 8, 9 and 12, and of the case study, 7, 10 and 11."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial

from matplotlib import colormaps

from lib import figures, paper
from lib.files import MANIFEST
from lib.report import frame
from lib.report.page import Block
from lib.report.study import ENTROPY, POSTERIOR, Number, Study, probe
from lib.study.results import EXAMPLE
from lib.study.runs import Run, targets
from lib.tables import Value, number, table

PROBE_NOTE = (
    "This study has no GLUE, so ours is the probe: the share of masked validation tokens (15%) that the "
    "model recovers, in percent. It is a different quantity from the paper's: compare the pattern, not the "
    "numbers."
)
RECOVERED = "masked tokens recovered, %"
# name in the log -> title, decimals
CURVES = {
    "loss": ("training loss, bits per masked token", 2),
    "accuracy": ("masked tokens predicted in training, %", 1),
    "ppl": ("training perplexity", 1),
}
RUNS = {(run.k, run.p): run for run in targets()["figure5"].runs}
KS, MASK_RATIOS = (sorted({key[i] for key in RUNS}) for i in (0, 1))
BY_K_AND_P = {"k": lambda run: str(run.k), "p": lambda run: figures.percent(run.p)}
CORRUPTED = Number("measured in training, %", "train", "corrupted.proportion", 3, 100)


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


def grid(
    study: Study,
    name: str,
    value: Callable[[Run], Value | None],
    digits: int,
    papers: Mapping[str, float],
    theirs: str,
    ours: str = "",
    more: Mapping[str, Callable[[Run], str]] | None = None,
) -> list[Block]:
    """Cells by k and p: pictures of the paper's and of ours, and a table with more columns."""
    found = paper.cells(papers)
    values = {key: value(run) for key, run in RUNS.items()}
    centres = {key: one and one.centre for key, one in values.items()}
    pictures = {
        f"{name}-{who}": figures.heatmap(cells, f"{who}: {what}", min(digits, 2), KS, MASK_RATIOS)
        for who, what, cells in (("paper", theirs, found), ("ours", ours or theirs, centres))
    }
    columns = {
        **BY_K_AND_P,
        "p^k": lambda run: f"{100 * run.p**run.k:.2f}%",
        "paper": lambda run: number(found.get((run.k, run.p)), min(digits, 2)),
        "ours": lambda run: one.text(digits) if (one := values[run.k, run.p]) else study.missing(run),
        **(more or {}),
    }
    return [pictures, table(RUNS.values(), columns)]


def quality(study: Study, name: str, target: str) -> list[Block]:
    """Figures 3 and 8: a grid for each task of the paper's; ours are of fine-tunings, or of the probe."""
    papers, blocks = paper.numbers(target), [] if study.has_glue else [PROBE_NOTE]
    for task, cells in papers.get("grids", {"MNLI": papers.get("grid")}).items():
        value = partial(study.glue, task=task) if study.has_glue else partial(study.value, number=probe()[0])
        what = f"{task} accuracy, %"
        place = f"{name}-{task.lower()}"
        blocks += [
            f"{task}:",
            *grid(study, place, value, 1, cells, what, "" if study.has_glue else RECOVERED),
        ]
    return blocks


def figure4(study: Study, name: str) -> list[Block]:
    def expected(run: Run) -> float | None:
        """By the length of the samples, before repetition, in percent."""
        settings = next((frame.read(path / MANIFEST, [])["settings"] for path in study.folders(run)), {})
        length = settings.get("--tokens-per-sample")
        return length and 100 * corrupted_share(run.k, run.p, int(length))

    note = (
        "In percent. Expected: fairseq masks a fixed number of the positions of a sample, so all copies of "
        "a token are masked slightly less often than p^k; the difference shrinks with the samples' length."
    )
    papers, what = paper.numbers("figure4")["grid"], "corrupted semantics, %"
    value, more = (
        partial(study.value, number=CORRUPTED),
        {"expected, %": lambda run: number(expected(run), 3)},
    )
    return [note, *grid(study, name, value, CORRUPTED.digits, papers, what, CORRUPTED.title, more)]


def figure5(study: Study, name: str) -> list[Block]:
    papers = paper.numbers("figure5")["grid"]
    return grid(study, name, partial(study.value, number=ENTROPY), ENTROPY.digits, papers, "entropy, bits")


def figure9(study: Study, name: str) -> list[Block]:
    curves = {run: study.curve(run) for run in RUNS.values()}
    last = {run: curve.iloc[-1] for run, curve in curves.items() if len(curve)}
    names = {run: f"k = {run.k}, p = {figures.percent(run.p)}" for run in curves}
    styles = {}  # colours tell p, dashes and markers k
    for run, label in names.items():
        colour, k = MASK_RATIOS.index(run.p) / len(MASK_RATIOS), KS.index(run.k)
        shape = {"ls": figures.DASHES[k], "marker": figures.MARKERS[k]}
        styles[label] = {"color": colormaps["viridis"](colour), **shape}
    pictures = {}
    for key, (title, _) in CURVES.items():
        values = {
            names[run]: {u: Value((v,)) for u, v in curve.set_index("update")[key].dropna().items()}
            for run, curve in curves.items()
            if key in curve
        }
        log = "y" if key == "ppl" else ""
        pictures[f"{name}-{key}"] = figures.lines(values, title, "updates", styles=styles, band=True, log=log)
    columns = {
        **BY_K_AND_P,
        "updates": lambda run: str(last[run]["update"]) if run in last else study.missing(run),
    }
    for key, (title, digits) in CURVES.items():
        columns[title] = lambda run, key=key, digits=digits: (
            number(last[run].get(key), digits) if run in last else ""
        )
    note = "The paper has no numbers here. Ours are those at the end of training, of one seed."
    return [note, pictures, table(curves, columns)]


def figure12(study: Study, name: str) -> list[Block]:
    runs = sorted(targets()["figure12"].runs, key=lambda run: (run.p, run.k))
    mlm, exlm = ([run for run in runs if run.is_mlm == is_mlm] for is_mlm in (True, False))
    pictures = {}
    for key, one, title in (
        ("entropy", ENTROPY, "mean over a token's states"),
        ("entropy_posterior", POSTERIOR, "weighted by the posterior"),
    ):
        values: dict[str, dict[float, Value]] = {}
        for run in [*mlm, *exlm]:
            if value := study.value(run, ENTROPY if run.is_mlm else one):
                values.setdefault(run.label, {})[100 * run.p] = value
        pictures[f"{name}-{key}"] = figures.lines(values, f"Entropy, bits: {title}", "p, %")
    columns = {
        "p": lambda run: figures.percent(run.p),
        "model": lambda run: run.label,
        ENTROPY.title: lambda run: study.cell(run, ENTROPY),
        POSTERIOR.title: lambda run: study.cell(run, POSTERIOR) if run.model == "exlm" else "",
    }
    note = "The paper's figure is a picture without numbers, and does not name its mask ratios."
    return [note, pictures, table(runs, columns)]


def case(study: Study, name: str, picture: str | None = None) -> list[Block]:
    """Figures 7, 10 and 11 (whose graph is in the page): the example, by the first trained model."""
    pages = [folder / EXAMPLE for run in study.targets["figure7"].runs for folder in study.folders(run)]
    if page := next((page for page in pages if page.exists()), None):
        return [*([{name: page.with_name(picture)}] if picture else []), f"To explore: {page}"]
    return ["There is no picture yet."]


BUILDERS = {one.__name__: one for one in (figure4, figure5, figure9, figure12)}
BUILDERS |= {name: partial(quality, target=name) for name in ("figure3", "figure8")}
BUILDERS |= {
    "figure7": partial(case, picture="transitions_one_word.png"),
    "figure10": partial(case, picture="transitions.png"),
    "figure11": partial(case),
}
