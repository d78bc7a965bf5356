"""Comparisons of models, each at its best learning rate: bits per masked token after the same updates and at
the same FLOPs, and the use of states. No figure or table of the paper."""

from __future__ import annotations

import math

import pandas as pd

from lib import figures
from lib.files import MANIFEST
from lib.report import frame
from lib.report.page import Block
from lib.report.study import OWN, Number, Study
from lib.study.runs import Target
from lib.tables import Value, difference, over_seeds

COLUMNS = {
    "joint": Number("joint bits per masked token", "joint", "joint", 3, 1, OWN),
    "marginal": Number("product of the tokens' own probabilities", "joint", "marginal", 3, 1, OWN),
    "gain": Number("gain by dependence", "joint", "gain", 3, 1, OWN),
    "bits": Number("bits of a token by itself", "probe", "bits", 3, 1, OWN),
    "recovered": Number("recovered, %", "probe", "accuracy", 1, 100, OWN),
    "valid": Number("valid fills, %", "filling", "valid", 1, 100, OWN),
    "second_state": Number("masks with a second state, %", "states", "second_state", 1, 100, OWN),
    "divergence": Number("divergence of a mask's states, bits", "states", "divergence", 2, 1, OWN),
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
    "± standard deviation. A lead is the MLM's bits less the model's, ± its standard error over seeds (* if "
    "its 95% interval excludes zero); at equal FLOPs it is against the MLM trained for longer, between whose "
    "lengths bits are interpolated in the logarithm of FLOPs, seed by seed. Every layer counts at all of its "
    "tokens."
)


def wide(study: Study, target: Target) -> pd.DataFrame:
    """A row for each pre-training that counts: the run, seed, learning rate, FLOPs, and COLUMNS."""
    found = []
    numbers = {"lr": Number("", "train", "run.lr"), "updates": Number("", "train", "updates")}
    numbers |= {"flops": Number("", "train", "flops"), **COLUMNS}
    for run in target.runs:
        last = {key: study.rows(run, one).groupby("seed")["value"].last() for key, one in numbers.items()}
        part = pd.DataFrame(last).rename_axis("seed").reset_index()
        commits = [frame.read(path / MANIFEST, []).get("commit") for path in study.folders(run)]
        found.append(part.assign(name=run.name, label=run.label, p=run.p, k=run.k, commit=commits))
    first = ["name", "label", "p", "k", "seed", "lr", "updates", "flops", "commit"]
    data = pd.concat(found)
    return data[[*first, *(key for key in COLUMNS if data[key].notna().any())]].reset_index(drop=True)


def at_flops(mlm: pd.DataFrame, column: str, flops: float) -> Value | None:
    """The MLM's bits at a number of FLOPs, for each seed, between its lengths of training; None beyond."""
    found = []
    for _, one in mlm.groupby("seed"):
        points = one.dropna(subset=["flops", column]).sort_values("flops")[["flops", column]].to_numpy()
        for (low, before), (high, after) in zip(points, points[1:], strict=False):
            if low <= flops <= high * (1 + 1e-9):
                found.append(before + math.log(flops / low) / math.log(high / low) * (after - before))
    return over_seeds(found)


def leads(data: pd.DataFrame, by: str = "p") -> pd.DataFrame:
    """Each model's COLUMNS, and its lead over the MLM (k = 1) after the same updates and at the same FLOPs.

    Args:
        data: a row for each pre-training, as of :func:`wide`.
        by: the column in which compared models agree.
    """
    rows, shown = [], [column for column in COLUMNS if column in data]
    bits = shown[0] if shown else ""
    for group, part in data.groupby(by, sort=False):
        mlms = part[part["k"] == 1]
        mlm = mlms[mlms["updates"] == mlms["updates"].min()]
        for label, one in part.groupby("label", sort=False):
            values = {column: over_seeds(one[column]) for column in shown}
            cells = {
                by: figures.percent(group) if by == "p" else group,
                "model": label,
                "seeds": f"{len(one)}",
            }
            cells["learning rate"] = ", ".join(f"{lr:g}" for lr in sorted(set(one["lr"])))
            for column, value in values.items():
                cells[COLUMNS[column].title] = (
                    value.text(COLUMNS[column].digits, count=False) if value else ""
                )
            others = {"same updates": over_seeds(mlm[bits]) if bits else None}
            if "flops" in part:
                times, flops = one["flops"].mean() / mlm["flops"].mean(), one["flops"].mean()
                cells["FLOPs, times the MLM's"] = "" if math.isnan(times) else f"{times:.2f}"
                others["equal FLOPs"] = at_flops(mlms, bits, flops) if bits else None
            for name, other in others.items():
                is_mlm = (one["k"] == 1).all()
                cells[f"lead, {name}"] = "" if is_mlm or not bits else difference(other, values[bits])
            rows.append(cells)
    return pd.DataFrame(rows).fillna("")


def blocks(study: Study, target: Target, place: str) -> list[Block]:
    """The learning rates, the table and the pictures of a comparison; writes its frame to OUTPUT/NAME.csv.

    Args:
        place: how the pictures' names begin.
    """
    data = wide(study, target)
    if data.empty:
        return [NOTE, "There are no results yet."]
    data.to_csv(study.output / f"{target.name}.csv", index=False, float_format="%.6g")
    pictures = {}
    for p, part in data.groupby("p"):
        at = f"(p = {figures.percent(p)})"
        if bits := next((column for column in ("joint", "bits") if column in data), None):
            values: dict[str, dict[float, Value]] = {"MLM": {}}
            for (label, k, _), one in part.groupby(["label", "k", "updates"], sort=False):
                if value := over_seeds(one[bits]):
                    values.setdefault("MLM" if k == 1 else label, {})[one["flops"].mean()] = value
            title = f"{COLUMNS[bits].title} {at}"
            pictures[f"{place}-flops-p{p:g}"] = figures.lines(values, title, "FLOPs of training", log="x")
        for measure in (one for one in CURVES if one in target.measures):
            curves = {run.label: study.rows(run, CURVES[measure]) for run in target.runs if run.p == p}
            values = {
                label: {u: Value(tuple(one)) for u, one in rows.groupby("updates")["value"]}
                for label, rows in curves.items()
            }
            picture = figures.lines(values, f"{CURVES[measure].title} {at}", "updates", band=True)
            pictures[f"{place}-{measure}-p{p:g}"] = picture
    return [NOTE, _rates(study, target), leads(data), pictures]


def _rates(study: Study, target: Target) -> pd.DataFrame:
    """Bits by learning rate, of the seed that chose."""
    rows = []
    for run in target.runs:
        bits = {float(lr): -score for lr, score in study.rates[run.name].get("scores", {}).items()}
        best = float(study.rates[run.name].get("best", 0))
        edge = bits and {min(bits): "lowest", max(bits): "highest"}.get(best)
        remark = f"the {edge} rate tried is best" if edge else ""
        if not bits:
            missing = study.missing(run) == "rate not chosen"
            remark = "rate not chosen" if missing else "the size's rate"
        cells = {f"{lr:g}": f"{value:.3f}" for lr, value in bits.items()}
        rows.append({"model": run.label, "p": figures.percent(run.p), **cells, "remark": remark})
    data = pd.DataFrame(rows).fillna("")
    rates = sorted(set(data) - {"model", "p", "remark"}, key=float)
    return data[["model", "p", *rates, "remark"]]
