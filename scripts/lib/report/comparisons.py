"""Comparisons of models, each at its best learning rate: bits per masked token after the same updates and at
the same FLOPs, and the use of states. No figure or table of the paper."""

from __future__ import annotations

import math

import pandas as pd

from lib import figures
from lib.folders import MANIFEST
from lib.report import frame
from lib.report.page import Block
from lib.report.study import OWN, Number, Study
from lib.study.runs import Run, Target
from lib.tables import Value, over_seeds, table

COLUMNS = {
    "bits": Number("bits of a token by itself", "probe", "bits", 3, 1, OWN),
    "recovered": Number("recovered, %", "probe", "accuracy", 1, 100, OWN),
    "joint": Number("joint bits per masked token", "joint", "joint", 3, 1, OWN),
    "marginal": Number("product of the tokens' own probabilities", "joint", "marginal", 3, 1, OWN),
    "gain": Number("gain by dependence", "joint", "gain", 3, 1, OWN),
    "valid": Number("valid fills, %", "filling", "valid", 1, 100, OWN),
    "divergence": Number("divergence of a mask's states, bits", "states", "divergence", 2, 1, OWN),
    "second_state": Number("masks with a second state, %", "states", "second_state", 1, 100, OWN),
    "own_share": Number("paths through a mask's own states, %", "states", "own_share", 1, 100, OWN),
    "hydrogens": Number("atoms: hydrogens, %", "atoms", "hydrogens.model", 1, 100),
    "charge": Number("atoms: charge, 100 R²", "atoms", "charge.model", 1, 100),
}
CURVES = {
    "curve": Number("bits of a token by itself", "curve", "bits", 3, 1, OWN),
    "states": COLUMNS["divergence"],
}
NOTE = (
    "Bits are -log2 of the probability of the masked validation tokens, at the p of the training and the "
    "same tokens for all models: joint, of all masked tokens of a sample together; and of each by itself. "
    "Each run uses the learning rate that the first seed chose, and the figures are of the other seeds: mean "
    "± standard deviation. A lead is the MLM's bits less the model's, ± its standard error over seeds; at "
    "equal FLOPs it is against the MLM trained for longer, between whose lengths bits are interpolated in "
    "the logarithm of FLOPs, seed by seed. FLOPs count every layer at all of its tokens."
)


def wide(study: Study, target: Target) -> pd.DataFrame:
    """A row for each pre-training that counts: the run, seed, learning rate, FLOPs, and COLUMNS."""
    found = []
    for run in target.runs:
        parts = {"lr": Number("", "train", "run.lr"), "updates": Number("", "train", "updates")}
        parts |= {"flops": Number("", "train", "flops"), **COLUMNS}
        last = {key: study.rows(run, one).groupby("seed")["value"].last() for key, one in parts.items()}
        part = pd.DataFrame(last).rename_axis("seed").reset_index()
        about = {"name": run.name, "label": run.label, "p": run.p, "k": run.k}
        commits = [frame.read(path / MANIFEST, []).get("commit") for path in study.folders(run)]
        found.append(part.assign(**about, commit=commits))
    first = ["name", "label", "p", "k", "seed", "lr", "updates", "flops", "commit"]
    data = pd.concat(found)
    return data[[*first, *(key for key in COLUMNS if data[key].notna().any())]].reset_index(drop=True)


def difference(ours: pd.Series, theirs: pd.Series) -> str:
    """Theirs less ours, ± its standard error over seeds."""
    ours, theirs = ours.dropna(), theirs.dropna()
    if ours.empty or theirs.empty:
        return ""
    text = f"{theirs.mean() - ours.mean():+.3f}"
    if min(len(ours), len(theirs)) < 2:
        return text
    return f"{text} ± {math.sqrt(ours.var() / len(ours) + theirs.var() / len(theirs)):.3f}"


def at_flops(mlm: pd.DataFrame, column: str, flops: float) -> pd.Series:
    """The MLM's bits at a number of FLOPs, for each seed, between its lengths of training; empty beyond."""
    found = {}
    for seed, one in mlm.groupby("seed"):
        points = one.dropna(subset=["flops", column]).sort_values("flops")[["flops", column]].to_numpy()
        for (low, before), (high, after) in zip(points, points[1:], strict=False):
            if low <= flops <= high * (1 + 1e-9):
                share = math.log(flops / low) / math.log(high / low)
                found[seed] = before + share * (after - before)
    return pd.Series(found, dtype=float)


def blocks(study: Study, target: Target, place: str) -> list[Block]:
    """The learning rates, the table and the pictures of a comparison; writes its frame to OUTPUT/NAME.csv.

    Args:
        place: how the pictures' names begin.
    """
    data = wide(study, target)
    if data.empty:
        return [NOTE, "There are no results yet."]
    data.to_csv(study.output / f"{target.name}.csv", index=False, float_format="%.6g")
    bits = "joint" if "joint" in data else "bits"
    pictures = {}
    if bits in data:
        for p, part in data.groupby("p"):
            title = f"{COLUMNS[bits].title} (p = {figures.percent(p)})"
            pictures[f"{place}-flops-p{p:g}"] = _over_flops(part, target, bits, title)
    for measure in (one for one in CURVES if one in target.measures):
        for p in sorted({run.p for run in target.runs}):
            pictures[f"{place}-{measure}-p{p:g}"] = _over_training(study, target, p, CURVES[measure])
    return [NOTE, _rates(study, target), _table(study, target, data, bits), pictures]


def _rates(study: Study, target: Target) -> pd.DataFrame:
    """Bits by learning rate, of the seed that chose."""
    chosen = {
        run: {float(lr): b for lr, b in study.rates[run.name].get("bits", {}).items()} for run in target.runs
    }

    def remark(run: Run) -> str:
        if not (tried := sorted(chosen[run])):
            return "rate not chosen" if study.missing(run) == "rate not chosen" else "the size's rate"
        edges = {tried[0]: "the lowest rate tried is best", tried[-1]: "the highest rate tried is best"}
        return edges.get(study.rates[run.name]["lr"], "")

    columns = {"model": lambda run: run.label, "p": lambda run: figures.percent(run.p)}
    for lr in sorted({lr for bits in chosen.values() for lr in bits}):
        columns[f"{lr:g}"] = lambda run, lr=lr: f"{chosen[run][lr]:.3f}" if lr in chosen[run] else ""
    return table(target.runs, {**columns, "remark": remark})


def _table(study: Study, target: Target, data: pd.DataFrame, bits: str) -> pd.DataFrame:
    rows = {run: data[data["name"] == run.name] for run in target.runs}

    def mlm(run: Run, times: float | None = None) -> pd.DataFrame:
        """Those of the same p, of all lengths of training or of one."""
        same = [
            one.name for one in target.runs if one.is_mlm and one.p == run.p and times in (None, one.times)
        ]
        return data[data["name"].isin(same)]

    def rate(run: Run) -> str:
        return ", ".join(f"{lr:g}" for lr in sorted(set(rows[run]["lr"]))) or study.missing(run)

    def cell(run: Run, column: str) -> str:
        value = over_seeds(rows[run][column], len(rows[run]))
        return value.text(COLUMNS[column].digits) if value else ""

    def cost(run: Run) -> str:
        times = rows[run]["flops"].mean() / mlm(run, 1)["flops"].mean()
        return "" if math.isnan(times) else f"{times:.2f}"

    def lead(run: Run) -> str:
        return "" if run.is_mlm or bits not in data else difference(rows[run][bits], mlm(run, 1)[bits])

    def lead_at_flops(run: Run) -> str:
        if run.is_mlm or bits not in data or rows[run].empty:
            return ""
        return difference(rows[run][bits], at_flops(mlm(run), bits, rows[run]["flops"].mean()))

    shown = [column for column in SHOWN if column in data]
    columns = {"model": lambda run: run.label, "p": lambda run: figures.percent(run.p), "learning rate": rate}
    columns |= {COLUMNS[column].title: lambda run, column=column: cell(run, column) for column in shown}
    columns |= {
        "FLOPs, times the MLM's": cost,
        "lead, same updates": lead,
        "lead, equal FLOPs": lead_at_flops,
    }
    return table(target.runs, {**columns, "seeds": lambda run: str(len(rows[run]) or "")})


SHOWN = ("joint", "marginal", "gain", "bits", "recovered", "valid", "second_state", "divergence", "own_share")
SHOWN += ("hydrogens", "charge")  # in this order


def _over_flops(data: pd.DataFrame, target: Target, column: str, title: str):
    """Bits over FLOPs: the MLM's lengths of training as a line, the other models as points."""
    values: dict[str, dict[float, Value]] = {"MLM": {}}
    for run in target.runs:
        part = data[data["name"] == run.name].dropna(subset=["flops", column])
        if value := over_seeds(part[column]):
            values.setdefault("MLM" if run.is_mlm else run.label, {})[part["flops"].mean()] = value
    return figures.lines(values, title, "FLOPs of training", log="x")


def _over_training(study: Study, target: Target, p: float, number: Number):
    """A measure of the checkpoints over updates, mean and standard deviation over seeds."""
    values = {
        run.label: {u: Value(tuple(one)) for u, one in study.rows(run, number).groupby("updates")["value"]}
        for run in target.runs
        if run.p == p
    }
    return figures.lines(values, f"{number.title} (p = {figures.percent(p)})", "updates", band=True)
