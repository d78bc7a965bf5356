"""Comparisons of models, each at its best learning rate: what they recover, what that cost, and the measures
of fs_plugins.analysis. No figure or table of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise

from recipes import figures
from recipes.report.page import Block, Picture, Pictures, Section
from recipes.report.study import TRAIN, Measure, Study, by_label, label, measured, probe, times
from recipes.study import grids
from recipes.study.grids import PROBE_RATIO, TARGETS, Run
from recipes.study.measures import NO_PATHS
from recipes.tables import Table, Value, escape, number, over_seeds

MOST_THRESHOLDS = 3
MINUTES = Measure("minutes in training steps", TRAIN, lambda content, run: content["training_seconds"] / 60)
FLOPS = Measure("FLOPs", TRAIN, lambda content, run: content["flops"])
BITS = measured("bits a masked token", grids.CURVE, "bits")
JOINT = {
    name: measured(f"{title}, bits a masked token", grids.JOINT, name, digits=3)
    for name, title in (("joint", "joint"), ("marginal", "marginal"), ("gain", "gain by dependence"))
}
FILLING = {
    name: measured(f"{name}, %", grids.FILLING, name, scale=100, digits=1)
    for name in ("valid", "equal", "distinct")
}
STATES = {
    name: measured(title, grids.USE_OF_STATES, name, scale=scale, digits=digits)
    for name, title, scale, digits in (
        ("entropy", "entropy over a mask's states, bits", 1, 2),
        ("posterior_entropy", "entropy by the posterior, bits", 1, 2),
        ("divergence", "divergence of a mask's states, bits", 1, 3),
        ("second_state", "masks with a second state, %", 100, 1),
        ("own_share", "paths through a mask's own states, %", 100, 1),
    )
}
ATOMS = {"hydrogens": "hydrogens, %", "degree": "degree, %", "ring": "in ring, %", "charge": "charge, 100 R²"}
CONTROLS = ("untrained", "token", "shuffled", "majority")
RECOVERY_NOTE = (
    "The probe: masked validation tokens, the same for all models; bits are -log2 of the probability of the "
    "right one. Below ... bits: the first update at which the probe at the model's own p is, interpolated "
    "between checkpoints, at the earliest the first; (n=2 of 3) means that one seed never is. Minutes are "
    "the machine's, which may have been busy. Bands in the pictures are standard deviations over seeds."
)
JOINT_NOTE = (
    "All masked tokens of a sample together, at the p of the training, given their number: joint, the "
    "product of the tokens' own probabilities (marginal), and what their dependence gains."
)
FILLING_NOTE = (
    "Molecules with a share p of their tokens masked, filled in by drawing: shares of the fillings that are "
    "molecules (valid), the original one (equal), and valid ones that differ from each other (distinct)."
)
ATOMS_NOTE = (
    "Properties of atoms by a linear model of their frozen vectors, nothing masked: shares of atoms that are "
    "right, and R² of the partial charge. Controls are means over all models: the untrained encoder, the "
    "atom's token alone, shuffled labels, the most frequent label."
)
STATES_NOTE = (
    "Of a masked token: the entropy over its own states by the transitions, and with the targets known "
    "(posterior); the Jensen-Shannon divergence of what its states say; whether a second state has more than "
    "10%; the share of paths that emit it by its own states. At the end of training, and over it."
)


def _atoms(name: str, row: str = "model") -> Measure:
    def pick(content: dict, run: Run) -> float:
        return 100 * content["results"][name][row]["mean"]

    return Measure(ATOMS[name], f"{grids.ATOMS}.json", pick)


def curves(study: Study, run: Run, measure: Measure) -> list[dict[int, float]]:
    """Updates -> a measure of the checkpoints, of each seed."""

    def parse(content: dict) -> dict[int, float]:
        return {int(row["updates"]): measure.pick(row, run) for row in content.get("rows", [content])}

    return [curve for curve in study.read(run, measure.file, parse) if curve]


def mean_curve(found: Sequence[Mapping[int, float]]) -> dict[int, Value]:
    """Over seeds, at the updates that all have."""
    common = sorted(set.intersection(*map(set, found))) if found else []
    return {update: over_seeds(curve[update] for curve in found) for update in common}


def first_below(curve: Mapping[int, float], bits: float) -> float | None:
    """The update at which a curve first falls below a number of bits, interpolated between checkpoints.

    That of the first checkpoint if it is below already; None if the curve never falls below.
    """
    points = sorted(curve.items())
    if points and points[0][1] < bits:
        return points[0][0]
    for (start, before), (end, after) in pairwise(points):
        if after < bits:
            return start + (end - start) * (before - bits) / (before - after)
    return None


def thresholds(found: Sequence[Mapping[int, float]]) -> list[int]:
    """The whole numbers of bits that most curves cross, of equals the lowest; the highest first."""
    crossed = [
        bits
        for curve in found
        for bits in range(int(min(curve.values())) + 1, int(max(curve.values())) + 1)
        if first_below(curve, bits) is not None
    ]
    best = sorted(set(crossed), key=lambda bits: (-crossed.count(bits), bits))[:MOST_THRESHOLDS]
    return sorted(best, reverse=True)


class Comparison:
    """The rows of a comparison, and what its sections have in common."""

    def __init__(self, study: Study, name: str, prefix: str):
        self.study, self.prefix, self.runs = study, f"{prefix}{name}", TARGETS[name].runs
        self.ratios = sorted({run.p for run in self.runs})
        kinds = list(dict.fromkeys((run.model, run.k) for run in self.runs))
        self.styles: dict[
            str, dict
        ] = {}  # a colour for each model and k, dashes and markers for its variants
        for run in self.runs:
            kind = kinds.index((run.model, run.k))
            colour = figures.COLOURS[kind - 1] if kind else "0.2"
            same = [name for name, style in self.styles.items() if style["color"] == colour]
            shape = {"ls": figures.DASHES[len(same) % 4], "marker": figures.MARKERS[len(same) % 6]}
            self.styles.setdefault(label(run), {"color": colour, **shape})

    def table(self, columns: Mapping[str, Callable[[Run], str]], runs: Sequence[Run] = ()) -> Table:
        """A row per run, with its p, if they differ."""
        p = {"p": lambda run: figures.percent(run.p)} if len(self.ratios) > 1 else {}
        return Table.of(runs or self.runs, {"model": label, **p, **columns})

    def cells(self, *measures: Measure) -> dict[str, Callable[[Run], str]]:
        return {one.title: partial(one.cell, self.study) for one in measures}

    def picture(self, name: str, title: str, values: Mapping[str, Mapping], *axes, **more) -> Picture:
        figure = figures.lines(values, title, *axes, styles=self.styles, **more)
        return Picture(f"{self.prefix}-{name}", figure)

    def by_ratio(self) -> Iterator[tuple[str, str, list[Run]]]:
        """For each p the end of a picture's name, of its title, and the runs."""
        for p in self.ratios:
            where = f"-p{p:g}" if len(self.ratios) > 1 else ""
            yield where, f" (p = {figures.percent(p)})", [run for run in self.runs if run.p == p]

    def over_training(
        self, name: str, measure: Measure, cost: Measure | None = None, **more
    ) -> list[Picture]:
        """A picture for each p of a measure over updates, or over what they cost."""
        pictures = []
        for where, what, runs in self.by_ratio():
            values: dict[str, dict[float, Value]] = {}
            for run in runs:
                curve = mean_curve(curves(self.study, run, measure))
                total = cost.value(self.study, run) if cost else Value((max(curve, default=0),))
                step = (
                    total.centre / max(curve) if total and curve else 0
                )  # checkpoints end with the last update
                values[label(run)] = {step * update: value for update, value in curve.items() if step}
            title, xlabel = measure.title + what, cost.title if cost else "updates"
            pictures.append(self.picture(name + where, title, values, xlabel, band=True, **more))
        return pictures

    def tokens(self) -> float | None:
        """Tokens of an update; None if that is not known, or runs differ."""
        logs = [self.study.curve(run) for run in self.runs if run.own_ratio == run.p]
        found = {records[0].get("wpb") or 0 for records in logs if records}
        return max(found) if found and 0 < max(found) < 1.01 * min(found) else None


def rates(one: Comparison) -> list[Block]:
    """Bits by learning rate, of the seed that chooses, as far as they are known."""
    study, bits = one.study, probe(own=True)[1]
    tried: dict[Run, dict[float, float]] = {run: {} for run in one.runs}
    for run in sorted(study.begun):
        if not run.lr or run.row not in tried:
            continue
        first = min(other.seed for other in study.begun if other.row == run.row)
        path = study.begun[run] / bits.file
        found = study.reader.read(path, lambda content, run=run: bits.pick(content, run))
        if run.seed == study.rates.get(run.row, (0, first))[1] and found is not None:
            tried[run.row][run.lr] = found
    every = sorted({lr for found in tried.values() for lr in found})
    if not every:
        return [escape("All runs have their size's learning rate; give rates= to choose each model's.")]

    def cell(run: Run, lr: float) -> str:
        best = " (best)" if run in study.rates and lr == study.rates[run][0] else ""
        return number(tried[run].get(lr), 3) + best

    def remark(run: Run) -> str:
        if run not in study.rates:
            return "not chosen yet" if tried[run] else "not run"
        edges = {min(every): "lowest", max(every): "highest"}
        edge = edges.get(study.rates[run][0])
        return f"the {edge} rate tried is best" if edge else ""

    columns = {f"{lr:g}": partial(cell, lr=lr) for lr in every}
    note = (
        "Bits a masked token at the model's own p, by the peak learning rate, of the first seed. All other "
        "numbers are of the other seeds, at the best rate."
    )
    return [escape(note), one.table({**columns, "remark": remark})]


def recovery(one: Comparison) -> list[Block]:
    """What is recovered, how soon, and what it cost."""
    study = one.study
    every = {run: curves(study, run, BITS) for run in one.runs}

    def below(run: Run, bits: int) -> str:
        value = over_seeds((first_below(curve, bits) for curve in every[run]), len(every[run]))
        never = "never" if every[run] else study.missing(run, BITS.file)
        return value.text(0) if value else never

    def by_mlm(run: Run, cost: Measure) -> str:
        return number(times(study, run, Run("repeated-mlm", 1, run.p), cost), 2)

    columns = {
        "learning rate": lambda run: f"{study.rates[run][0]:g}" if run in study.rates else "",
        **one.cells(*probe(), *(probe(own=True) if one.ratios != [PROBE_RATIO] else ())),
        **{
            f"below {bits} bits at update": partial(below, bits=bits)
            for bits in thresholds([curve for found in every.values() for curve in found])
        },
        **one.cells(MINUTES),
        "minutes, times the MLM": partial(by_mlm, cost=MINUTES),
        "FLOPs, times the MLM": partial(by_mlm, cost=FLOPS),
    }
    tokens = one.tokens()
    also = ("tokens seen, millions", tokens / 1e6) if tokens else None
    pictures = one.over_training("bits", BITS, also=also)
    pictures += [*one.over_training("time", BITS, MINUTES), *one.over_training("flops", BITS, FLOPS)]
    return [escape(RECOVERY_NOTE), one.table(columns), Pictures(pictures)]


def pictured(one: Comparison, note: str, measures: dict[str, Measure]) -> list[Block]:
    """Measures, each with a picture over p; over what the training cost if all have the same p."""

    def place(run: Run) -> float | None:
        cost = FLOPS.value(one.study, run) if len(one.ratios) == 1 else Value((100 * run.p,))
        return cost and cost.centre

    xlabel = FLOPS.title if len(one.ratios) == 1 else "p of training and measure, %"
    pictures = []
    for name, measure in measures.items():
        values = by_label(one.study, one.runs, measure, place)
        pictures.append(one.picture(name, measure.title, values, xlabel))
    return [escape(note), one.table(one.cells(*measures.values())), Pictures(pictures)]


def atoms(one: Comparison) -> list[Block]:
    """The models, and the controls as means over all of them."""
    controls: dict[str, dict[str, Value | None]] = {control: {} for control in CONTROLS}
    for control, found in controls.items():
        for name, title in ATOMS.items():
            values = (_atoms(name, control).value(one.study, run) for run in one.runs)
            found[title] = over_seeds(number for value in values if value for number in value.numbers)
    table = one.table(one.cells(*map(_atoms, ATOMS)))
    blank = [""] * (len(table.head) - 1 - len(ATOMS))
    texts = {name: [v.text() if v else "" for v in found.values()] for name, found in controls.items()}
    rows = [[name, *blank, *cells] for name, cells in texts.items()]
    pictures = []
    for where, what, runs in one.by_ratio():
        ours = {label(run): {ATOMS[key]: _atoms(key).value(one.study, run) for key in ATOMS} for run in runs}
        figure = figures.dots(list(ATOMS.values()), controls, ours, "%", f"atom probe{what}", one.styles)
        pictures.append(Picture(f"{one.prefix}-atoms{where}", figure))
    models = range(len(table.rows))
    return [escape(ATOMS_NOTE), Table(table.head, [*table.rows, *rows], models), Pictures(pictures)]


def use_of_states(one: Comparison) -> list[Block]:
    runs = [run for run in one.runs if run.model not in NO_PATHS]
    shown = {name: measure for name, measure in STATES.items() if name != "posterior_entropy"}
    pictures = [picture for name, measure in shown.items() for picture in one.over_training(name, measure)]
    return [escape(STATES_NOTE), one.table(one.cells(*STATES.values()), runs), Pictures(pictures)]


SECTIONS = {  # the measure that each needs -> title, blocks
    "": ("Learning rates tried", rates),
    grids.PROBE: ("Recovery of masked tokens, and its cost", recovery),
    grids.JOINT: ("Joint likelihood", partial(pictured, note=JOINT_NOTE, measures=JOINT)),
    grids.FILLING: ("Filling molecules", partial(pictured, note=FILLING_NOTE, measures=FILLING)),
    grids.ATOMS: ("Atom probe", atoms),
    grids.USE_OF_STATES: ("Use of states", use_of_states),
}


def sections(study: Study, name: str, prefix: str) -> list[Section]:
    """The sections of a comparison, those that it measures."""
    comparison, measures = Comparison(study, name, prefix), ("", *TARGETS[name].measures)
    shown = {title: build for key, (title, build) in SECTIONS.items() if key in measures}
    return [Section(title, build(comparison)) for title, build in shown.items()]
