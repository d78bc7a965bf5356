"""Which runs, and which measurements of them, each figure, table and comparison of the study needs.

A run is one pre-training; the runs that several figures and tables share are the same :class:`Run`. The
vanilla MLM is Repeated MLM with k = 1, which gives the batches and the loss of fairseq's ``masked_lm``
exactly, and logs the corrupted proportion besides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

MASK_RATIOS = (0.0225, 0.15, 0.387, 0.622, 0.789)
# figures 3, 4, 5 and 8; the paper leaves the rest out, as too little of the semantics is corrupted to train
REPEATED = {
    1: MASK_RATIOS,
    2: MASK_RATIOS[1:],
    4: MASK_RATIOS[2:],
    8: MASK_RATIOS[3:],
}
STATES = (2, 4, 8)  # k of ExLM in table 4 and figure 12
TABLE4_RATIOS = (0.15, 0.387)
FIGURE12_RATIOS = MASK_RATIOS[1:]  # the paper's text does not say which ratios its figure 12 has
DEFAULT_K, DEFAULT_P = 4, 0.15
LARGEST_K = 16
PROBE_RATIO = 0.15
GLUE_TASKS = ("MNLI", "QNLI", "QQP", "RTE")  # of GLUE's eight, those of this study
PENALTY = 2.0  # nats, of the comparisons that have it
_NUMBER = r"(\d[\d.]*(?:e-\d+)?)"
_KEY = re.compile(
    rf"([a-z0-9-]+)-k(\d+)-p{_NUMBER}(?:-x{_NUMBER})?(?:-shared{_NUMBER})?(?:-penalty{_NUMBER})?"
    rf"(?:-lr{_NUMBER})?-seed-(\d+)"
)

# measurements of a run besides its training; "quality" is fine-tuning where GLUE is given, else the probe
ENTROPY, QUALITY, QUALITY_MNLI = "entropy", "quality", "quality-mnli"
# those of recipes.study.measures
PROBE, CURVE, JOINT, FILLING, ATOMS, USE_OF_STATES = "probe", "curve", "joint", "filling", "atoms", "states"


@dataclass(frozen=True, order=True)
class Run:
    """One pre-training: all that tells it from the others of the same size and data."""

    model: str
    k: int
    p: float
    seed: int = 1
    schedule: float = 1  # times as many updates as the others
    penalty: float = 0.0  # --alignment-penalty, nats
    lr: float = 0.0  # peak learning rate; 0: the size's
    shared_layers: float = 0.0  # --expand-from-layer, as a share of the layers

    def __post_init__(self):
        if not 1 <= self.k <= LARGEST_K:
            raise ValueError(f"k = {self.k}: give a whole number from 1 to {LARGEST_K}")
        if not 0.0 < self.p < 1.0:
            raise ValueError(f"p = {self.p:g}: give a share between 0 and 1, such as 0.15")
        if not 0.0 <= self.shared_layers <= 1.0:
            raise ValueError(f"shared_layers = {self.shared_layers:g}: give a share of the layers, 0 to 1")

    @property
    def key(self) -> str:
        """The name of the run's folder."""
        rate = f"-lr{self.lr:g}" if self.lr else ""
        return f"{self.name}{rate}-seed-{self.seed}"

    @property
    def name(self) -> str:
        """What is compared: all but the seed and the learning rate."""
        longer = f"-x{self.schedule:g}" if self.schedule != 1 else ""
        shared = f"-shared{self.shared_layers:g}" if self.shared_layers else ""
        penalty = f"-penalty{self.penalty:g}" if self.penalty else ""
        return f"{self.model}-k{self.k}-p{self.p:g}{longer}{shared}{penalty}"

    @property
    def row(self) -> Run:
        """The run that stands for all of the same name."""
        return replace(self, seed=1, lr=0.0)

    @classmethod
    def of(cls, key: str) -> Run:
        """The run of a folder's name.

        Raises:
            ValueError: if it is none.
        """
        found = _KEY.fullmatch(key)
        if found is None:
            raise ValueError(f"{key} is no run of the study: give MODEL-kK-pP-seed-N")
        model, k, p, *numbers, seed = found.groups()
        names = ("schedule", "shared_layers", "penalty", "lr")
        given = {name: float(number) for name, number in zip(names, numbers, strict=True) if number}
        return cls(model, int(k), float(p), int(seed), **given)

    @property
    def own_ratio(self) -> float:
        """The share of masked words that the model was trained with; 15% if tokens were repeated."""
        return self.p if self.k == 1 or self.model != "repeated-mlm" else PROBE_RATIO


@dataclass(frozen=True)
class Experiment:
    """A figure or table: its runs (for seed 1) and what is measured of them."""

    title: str
    runs: tuple[Run, ...]
    measures: tuple[str, ...] = ()


def _mlm(p: float = DEFAULT_P, **more) -> Run:
    return Run("repeated-mlm", 1, p, **more)


def _exlm(k: int = DEFAULT_K, p: float = DEFAULT_P, model: str = "exlm", **more) -> Run:
    return Run(model, k, p, **more)


_REPEATED = tuple(Run("repeated-mlm", k, p) for k, ratios in REPEATED.items() for p in ratios)
_ABLATIONS = (_exlm(), _exlm(model="exlm-1d-rope"), _exlm(model="exlm-no-transitions"), _mlm())

EXPERIMENTS: dict[str, Experiment] = {
    "figure3": Experiment("Repeated MLM: MNLI by k and p", _REPEATED, (QUALITY_MNLI,)),
    "figure4": Experiment("Repeated MLM: corrupted semantics by k and p", _REPEATED),
    "figure5": Experiment("Repeated MLM: entropy by k and p", _REPEATED, (ENTROPY,)),
    "figure8": Experiment("Repeated MLM: four tasks by k and p", _REPEATED, (QUALITY,)),
    "figure9": Experiment("Repeated MLM: training curves", _REPEATED),
    "figure12": Experiment(
        "Entropy of ExLM and MLM by p and k",
        tuple(run for p in FIGURE12_RATIOS for run in (_mlm(p), *(_exlm(k, p) for k in STATES))),
        (ENTROPY,),
    ),
    "table2": Experiment("Ablations", (*_ABLATIONS, _mlm(schedule=2)), (QUALITY,)),
    "table4": Experiment(
        "ExLM by k and p",
        tuple(run for p in TABLE4_RATIOS for run in (_mlm(p), *(_exlm(k, p) for k in STATES))),
        (QUALITY,),
    ),
    "table12": Experiment("Training time", (_mlm(), _exlm())),
    "table13": Experiment(
        "Sparse ExLM",
        (_exlm(model="exlm-no-transitions"), _exlm(model="exlm-sparse"), _mlm(), _exlm()),
        (QUALITY,),
    ),
}


# ours: no figure or table of the paper
COMPARISONS: dict[str, Experiment] = {
    "penalty": Experiment(
        "The alignment penalty",
        (_mlm(), _mlm(schedule=2), *(_exlm(k, penalty=nats) for k in STATES for nats in (0.0, PENALTY))),
        (PROBE, CURVE, USE_OF_STATES),
    ),
    "models": Experiment(
        "The models",
        (
            _mlm(),
            _mlm(schedule=2),
            _exlm(model="exlm-no-transitions"),
            *(_exlm(k, penalty=nats) for k in (2, 4) for nats in (0.0, PENALTY)),
        ),
        (PROBE, CURVE, JOINT, FILLING, ATOMS, USE_OF_STATES),
    ),
    "measures": Experiment(
        "What ExLM is for",
        tuple(
            run
            for p in MASK_RATIOS[1:4]
            for run in (
                _mlm(p),
                _exlm(p=p, model="exlm-no-transitions"),
                _exlm(2, p),
                _exlm(p=p),
                _exlm(p=p, penalty=PENALTY),
            )
        ),
        (PROBE, CURVE, JOINT, FILLING, ATOMS, USE_OF_STATES),
    ),
    "cost": Experiment(
        "A cheaper ExLM",  # by FLOPs it costs 1.7, 1.4 and 1.2 to 1.3 times the MLM with these shares
        (
            *(_mlm(schedule=times) for times in (1, 1.5, 2)),
            *(
                _exlm(penalty=nats, shared_layers=share)
                for nats in (0.0, PENALTY)
                for share in (0.0, 0.5, 0.75)
            ),
        ),
        (PROBE, CURVE, JOINT, FILLING, ATOMS, USE_OF_STATES),
    ),
    "collapse": Experiment(
        "States that say different words",
        (
            _mlm(),
            _exlm(),
            _exlm(penalty=PENALTY),
            _exlm(penalty=PENALTY, schedule=4),  # longer training
            _exlm(8, penalty=PENALTY),  # larger k
            _exlm(model="exlm-unequal-states", penalty=PENALTY),  # states unequal at initialisation
            _exlm(model="exlm-sparse"),  # a path has one state of each token (table 13)
            _exlm(model="exlm-lattice"),  # and no state is favoured at initialisation
            _exlm(model="exlm-soft-lattice"),  # and transitions learned slowly
            _exlm(model="exlm-unequal-soft-lattice"),  # all of these
            _exlm(penalty=PENALTY, shared_layers=1.0),  # the control: states cannot differ
            *(
                run  # masks that depend on each other
                for p in MASK_RATIOS[2:4]
                for run in (
                    _mlm(p),
                    _exlm(p=p, penalty=PENALTY),
                    _exlm(p=p, model="exlm-unequal-soft-lattice"),
                )
            ),
        ),
        (PROBE, CURVE, JOINT, USE_OF_STATES),
    ),
}
TARGETS = EXPERIMENTS | COMPARISONS


def expand(
    names: Iterable[str], seeds: Iterable[int] = (1,), only: dict[str, str] | None = None
) -> dict[Run, set[str]]:
    """The runs that figures and tables need, each once, with everything that is measured of it.

    Args:
        names: of TARGETS, or "all" of the paper's.
        seeds: of the pre-training; the first seed's runs come first.
        only: field of :class:`Run` -> value; runs that differ are left out.

    Raises:
        ValueError: for an unknown figure or table, an unknown field, or where no run is left.
    """
    names = list(names)
    for name in names:
        if name != "all" and name not in TARGETS:
            raise ValueError(f"unknown figure or table {name!r}: there are {', '.join(TARGETS)} and all")
    wanted = list(EXPERIMENTS) if "all" in names else names
    only = _check_filter(only or {})
    runs: dict[Run, set[str]] = {}
    for seed in seeds:
        for name in wanted:
            for run in TARGETS[name].runs:
                run = replace(run, seed=seed)
                if all(getattr(run, field) == value for field, value in only.items()):
                    runs.setdefault(run, set()).update(TARGETS[name].measures)
    if not runs:
        asked = ",".join(f"{name}={value}" for name, value in only.items())
        every = {run for name in wanted for run in TARGETS[name].runs}
        there = "; ".join(
            f"{name}: {', '.join(map(str, sorted({getattr(run, name) for run in every})))}" for name in only
        )
        raise ValueError(f"only={asked} leaves no run of {', '.join(names)}, which has {there}")
    return runs


def _check_filter(only: dict[str, str]) -> dict:
    types = {field.name: {"str": str, "int": int, "float": float}[field.type] for field in fields(Run)}
    values = {}
    for name, text in only.items():
        if name not in types:
            raise ValueError(f"only={name}={text}: a run has {', '.join(types)}")
        try:
            values[name] = types[name](text)
        except ValueError:
            raise ValueError(f"only={name}={text}: {name} is a number") from None
    Run("any", values.get("k", 1), values.get("p", 0.5))  # the same limits as a run's
    return values
