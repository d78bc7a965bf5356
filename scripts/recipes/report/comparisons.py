"""Comparisons of models, each at its best learning rate: what they recover, what that cost, and the measures
of fs_plugins.analysis. No figure or table of the paper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from recipes import figures
from recipes.report.page import Block, Picture, Pictures, Section, Text
from recipes.report.study import TRAIN, Measure, Study, label
from recipes.study import grids
from recipes.study.grids import PROBE_RATIO, TARGETS, Run
from recipes.study.measures import NO_PATHS
from recipes.tables import Table, Value, number, over_seeds

MOST_THRESHOLDS = 3
PROPERTIES = {  # of the atom probe -> title, scale
    "hydrogens": ("hydrogens, %", 100),
    "degree": ("degree, %", 100),
    "ring": ("in a ring, %", 100),
    "charge": ("charge, 100 R²", 100),
}
Column = Callable[[Run], str]
CONTROLS = ("untrained", "token", "shuffled", "majority")


def _at(result: dict, name: str, run: Run, share: float | None = None) -> float | None:
    """A figure of the masked words of one share (default: the model's own) in a file's ``results``."""
    share = share or run.own_ratio
    found = next((one[name] for one in result["results"] if one["mask_prob"] == share), None)
    return found["mean"] if isinstance(found, dict) else found


def _measure(title: str, file: str, name: str, share: float | None = None, scale=1, digits=2) -> Measure:
    def pick(content: dict, run: Run) -> float | None:
        last = content["rows"][-1] if "rows" in content else content
        value = _at(last, name, run, share)
        return None if value is None else scale * value

    return Measure(title, f"{file}.json", pick, digits)


def _probe(own: bool) -> list[Measure]:
    share, where = (None, "its own p") if own else (PROBE_RATIO, f"p = {figures.percent(PROBE_RATIO)}")
    return [
        _measure(f"recovered at {where}, %", grids.PROBE, "accuracy", share, 100, 1),
        _measure(f"bits at {where}", grids.PROBE, "bits", share),
    ]


MINUTES = Measure(
    "minutes in training steps", TRAIN, lambda content, run: content["training_seconds"] / 60, 1
)
PER_UPDATE = Measure(
    "minutes an update", TRAIN, lambda content, run: content["training_seconds"] / content["updates"] / 60
)
JOINT = [
    _measure(f"{name}, bits a masked token", grids.JOINT, name, digits=3)
    for name in ("joint", "marginal", "gain")
]
FILLING = [
    _measure(f"{name}, %", grids.FILLING, name, scale=100, digits=1)
    for name in ("valid", "equal", "distinct")
]
STATES = {
    name: _measure(title, grids.USE_OF_STATES, name, scale=scale, digits=digits)
    for name, title, scale, digits in (
        ("entropy", "entropy over a mask's states, bits", 1, 2),
        ("posterior_entropy", "entropy by the posterior, bits", 1, 2),
        ("divergence", "divergence of its states' words, bits", 1, 3),
        ("second_state", "masks with a second state, %", 100, 1),
        ("own_share", "paths through a mask's own states, %", 100, 1),
    )
}


def _atoms(name: str, row: str = "model") -> Measure:
    title, scale = PROPERTIES[name]
    return Measure(
        title, f"{grids.ATOMS}.json", lambda content, run: scale * content["results"][name][row]["mean"], 1
    )


def curves(study: Study, run: Run, file: str, name: str, scale: float = 1) -> list[dict[int, float]]:
    """Updates -> a figure at the model's own p, of each seed, from the measures of its checkpoints."""

    def parse(content: dict) -> dict[int, float]:
        rows = content.get("rows", [content])
        return {int(row["updates"]): scale * _at(row, name, run) for row in rows}

    return [curve for curve in study.numbers(run, f"{file}.json", parse) if curve]


def mean_curve(found: Sequence[Mapping[int, float]]) -> dict[int, Value]:
    """Over seeds, at the updates that all have."""
    common = sorted(set.intersection(*map(set, found))) if found else []
    return {update: over_seeds(curve[update] for curve in found) for update in common}


def first_below(curve: Mapping[int, float], bits: float) -> float | None:
    """The update at which a curve first falls below a number of bits, interpolated between checkpoints.

    That of the first checkpoint if it is below already; None if the curve never falls below.
    """
    before = None
    for update, value in sorted(curve.items()):
        if value < bits:
            if before is None:
                return update
            return before[0] + (update - before[0]) * (before[1] - bits) / (before[1] - value)
        before = update, value
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
    """The rows of a comparison, and the pictures and tables of them."""

    def __init__(self, study: Study, name: str, prefix: str):
        self.study, self.name, self.prefix = study, name, f"{prefix}{name}"
        self.runs, self.measures = TARGETS[name].runs, TARGETS[name].measures
        self.ratios = sorted({run.p for run in self.runs})
        kinds = list(dict.fromkeys((run.model, run.k) for run in self.runs))
        names = list(dict.fromkeys(map(label, self.runs)))
        colours = {label(run): kinds.index((run.model, run.k)) for run in self.runs}
        same = {name: [one for one in names if colours[one] == colours[name]].index(name) for name in names}
        self.styles = {
            name: {
                "color": figures.COLOURS[colours[name] - 1] if colours[name] else "0.2",
                "ls": figures.DASHES[same[name] % len(figures.DASHES)],
            }
            for name in names
        }

        logs = (study.curve(run) for run in self.runs if run.own_ratio == run.p)
        steps = {records[0].get("wpb") or 0 for records in logs if records}
        self.tokens = max(steps, default=0) if max(steps, default=0) < 1.01 * min(steps, default=0) else 0

    def at(self, p: float) -> list[Run]:
        return [run for run in self.runs if run.p == p]

    def cells(self, measures: Iterable[Measure]) -> dict[str, Column]:
        return {one.title: lambda run, one=one: self.study.cell(run, one) for one in measures}

    def table(self, columns: Mapping[str, Column], runs: Sequence[Run] = ()) -> Table:
        """A row per run: its p, if they differ, and the columns."""
        several = len(self.ratios) > 1
        columns = {**({"p": lambda run: figures.percent(run.p)} if several else {}), **columns}
        rows = [[label(run), *(column(run) for column in columns.values())] for run in runs or self.runs]
        return Table(["model", *columns], rows)

    def picture(self, name: str, values: Mapping[str, Mapping[float, Value]], title, x, y, **more) -> Picture:
        drawn = figures.lines(values, title, y, x, self.styles, **more)
        return Picture(f"{self.prefix}-{name}", title, figures.png(drawn))

    def over_ratios(self, measures: Sequence[Measure]) -> Pictures:
        """A picture of each measure over p."""
        pictures = []
        for measure in measures:
            values: dict[str, dict[float, Value]] = {name: {} for name in self.styles}
            for run in self.runs:
                if value := self.study.value(run, measure):
                    values[label(run)][100 * run.p] = value
            name = measure.title.partition(",")[0]
            pictures.append(self.picture(name, values, measure.title, "p of training and measure, %", ""))
        return Pictures(pictures)

    def over_updates(self, file: str, name: str, title: str, y: str, scale: float = 1) -> list[Picture]:
        """A picture of a figure over updates for each p."""
        pictures = []
        for p in self.ratios:
            values = {
                label(run): mean_curve(curves(self.study, run, file, name, scale)) for run in self.at(p)
            }
            where = f"{name}-p{p:g}" if len(self.ratios) > 1 else name
            full = f"{title}, p = {figures.percent(p)}"
            more = ("tokens seen, millions", self.tokens / 1e6) if self.tokens else None
            pictures.append(self.picture(where, values, full, "updates", y, band=True, also=more))
        return pictures

    def by_time(self) -> list[Picture]:
        """The learning curves over minutes in training steps."""
        pictures = []
        for p in self.ratios:
            values = {}
            for run in self.at(p):
                if step := self.study.value(run, PER_UPDATE):
                    curve = mean_curve(curves(self.study, run, grids.CURVE, "bits"))
                    values[label(run)] = {step.centre * update: value for update, value in curve.items()}
            where = f"time-p{p:g}" if len(self.ratios) > 1 else "time"
            title = f"Learning curves by time, p = {figures.percent(p)}"
            pictures.append(
                self.picture(where, values, title, MINUTES.title, "bits a masked token", band=True)
            )
        return pictures

    # the sections

    def rates(self) -> list[Block]:
        """Bits by learning rate, of the seed that chose."""
        tried = {}
        for run in self.runs:
            chosen = self.study.rates.get(run)
            tried[run] = dict(chosen.bits) if chosen else self._bits_so_far(run)
        every = sorted({lr for bits in tried.values() for lr in bits})
        if not every:
            return [Text("All runs have their size's learning rate; give rates= to choose each model's.")]

        def bits(run: Run, lr: float) -> str:
            best = run in self.study.rates and lr == self.study.rates[run].lr
            return number(tried[run].get(lr), 3) + (" (best)" if best else "")

        def remark(run: Run) -> str:
            if run not in self.study.rates:
                return "not chosen yet" if tried[run] else "not run"
            place = sorted(tried[run]).index(self.study.rates[run].lr)
            edges = {0: "lowest", len(tried[run]) - 1: "highest"}
            return f"the {edges[place]} rate tried is best" if place in edges else ""

        seeds = {choice.seed for run, choice in self.study.rates.items() if run in self.runs}
        note = "Bits a masked token at the model's own p, by the peak learning rate"
        note += f", of seed {', '.join(map(str, sorted(seeds)))}" if seeds else ""
        columns = {f"{lr:g}": lambda run, lr=lr: bits(run, lr) for lr in every}
        note += ". All other numbers are of the other seeds, at the best rate."
        return [Text(note), self.table({**columns, "remark": remark})]

    def _bits_so_far(self, row: Run) -> dict[float, float]:
        pick = _probe(own=True)[1].pick
        runs = sorted(run for run in self.study.begun if run.row == row and run.lr)
        folders = {run.lr: self.study.begun[run] for run in runs if run.seed == runs[0].seed}
        found = {
            lr: self.study.reader.read(folder / f"{grids.PROBE}.json", lambda content: pick(content, row))
            for lr, folder in folders.items()
        }
        return {lr: bits for lr, bits in found.items() if bits is not None}

    def recovery(self) -> list[Block]:
        """What is recovered, how soon, and what it cost."""
        every = {run: curves(self.study, run, grids.CURVE, "bits") for run in self.runs}
        levels = thresholds([curve for found in every.values() for curve in found])

        def below(run: Run, bits: int) -> str:
            value = over_seeds((first_below(curve, bits) for curve in every[run]), len(every[run]))
            if value:
                return value.text(0)
            return "never" if every[run] else self.study.missing(run, f"{grids.CURVE}.json")

        def rate(run: Run) -> str:
            return f"{self.study.rates[run].lr:g}" if run in self.study.rates else ""

        def times(run: Run) -> str:
            mlm = self.study.value(Run("repeated-mlm", 1, run.p), MINUTES)
            own = self.study.value(run, MINUTES)
            return number(own.centre / mlm.centre if own and mlm else None, 2)

        measures = [*_probe(own=False), *(_probe(own=True) if self.ratios != [PROBE_RATIO] else [])]
        columns = {"learning rate": rate, **self.cells(measures)}
        columns |= {
            f"below {bits} bits at update": lambda run, bits=bits: below(run, bits) for bits in levels
        }
        columns |= {**self.cells([MINUTES]), "times the MLM": times}
        note = (
            "The probe: masked validation tokens, the same for all models; bits are -log2 of the probability "
            "of the right one. Below ... bits: the first update at which the probe at the model's own p is, "
            "interpolated between checkpoints; (n=2 of 3) means that one seed never is. Minutes are those of "
            "the machine, which may have been busy."
        )
        pictures = self.over_updates(grids.CURVE, "bits", "Learning curves", "bits a masked token")
        return [Text(note), self.table(columns), Pictures([*pictures, *self.by_time()])]

    def joint(self) -> list[Block]:
        note = (
            "All masked tokens of a sample together, at the p of the training, given their number: joint, "
            "the product of the tokens' own probabilities (marginal), and what their dependence gains."
        )
        return [Text(note), self.table(self.cells(JOINT)), self.over_ratios([JOINT[0], JOINT[2]])]

    def filling(self) -> list[Block]:
        note = (
            "Molecules with a share p of their tokens masked, filled in by drawing: shares of the fillings "
            "that are molecules (valid), the original one (equal), and valid ones that differ from each "
            "other (distinct)."
        )
        return [Text(note), self.table(self.cells(FILLING)), self.over_ratios(FILLING)]

    def atoms(self) -> list[Block]:
        """The models, and the controls as means over all of them."""
        measures = [_atoms(name) for name in PROPERTIES]
        table = self.table(self.cells(measures))
        where = [""] if len(self.ratios) > 1 else []
        controls: dict[str, dict[str, float | None]] = {}
        rows = []
        for control in CONTROLS:
            found = {}
            for name in PROPERTIES:
                values = (self.study.value(run, _atoms(name, control)) for run in self.runs)
                found[name] = over_seeds(n for value in values if value for n in value.numbers)
            rows.append([control, *where, *(value.text() if value else "" for value in found.values())])
            controls[control] = {
                measure.title: value and value.centre
                for measure, value in zip(measures, found.values(), strict=True)
            }
        pictures = []
        for p in self.ratios:
            ours = {
                label(run): {measure.title: self.study.value(run, measure) for measure in measures}
                for run in self.at(p)
            }
            title = f"Atom probe, p = {figures.percent(p)}"
            drawn = figures.dots([m.title for m in measures], controls, ours, "%", title)
            where = f"atoms-p{p:g}" if len(self.ratios) > 1 else "atoms"
            pictures.append(Picture(f"{self.prefix}-{where}", title, figures.png(drawn)))
        note = (
            "Properties of atoms by a linear model of their frozen vectors, nothing masked: shares of atoms "
            "that are right, and R² of the partial charge. Controls are means over all models: the untrained "
            "encoder, the atom's token alone, shuffled labels, the most frequent label."
        )
        return [
            Text(note),
            Table(table.head, [*table.rows, *rows], range(len(table.rows))),
            Pictures(pictures),
        ]

    def use_of_states(self) -> list[Block]:
        runs = [run for run in self.runs if run.model not in NO_PATHS]
        pictures = []
        for name in ("entropy", "divergence", "second_state", "own_share"):
            scale = 100 if name in ("second_state", "own_share") else 1
            title, _, unit = STATES[name].title.rpartition(", ")
            pictures += self.over_updates(
                grids.USE_OF_STATES, name, title[0].upper() + title[1:], unit, scale=scale
            )
        note = (
            "Of a masked token: the entropy over its own states by the transitions, and with the targets "
            "known (posterior); the Jensen-Shannon divergence of what its states say; whether a second state "
            "has more than 10%; the share of paths that emit it by its own states. At the end of training, "
            "and over it."
        )
        return [Text(note), self.table(self.cells(STATES.values()), runs), Pictures(pictures)]


SECTIONS = {  # of a comparison -> the measure it needs, None for all
    "Learning rates tried": (Comparison.rates, None),
    "Recovery of masked tokens, and its cost": (Comparison.recovery, grids.PROBE),
    "Joint likelihood": (Comparison.joint, grids.JOINT),
    "Filling molecules": (Comparison.filling, grids.FILLING),
    "Atom probe": (Comparison.atoms, grids.ATOMS),
    "Use of states": (Comparison.use_of_states, grids.USE_OF_STATES),
}


def sections(study: Study, name: str, prefix: str) -> list[Section]:
    """The sections of a comparison, those that it measures."""
    comparison = Comparison(study, name, prefix)
    return [
        Section(title, build(comparison))
        for title, (build, measure) in SECTIONS.items()
        if measure is None or measure in comparison.measures
    ]
