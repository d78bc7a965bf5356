"""Comparisons of models, each at its best learning rate: bits per masked token after the same updates and at
the same FLOPs, and the use of states. No figure or table of the paper."""

from __future__ import annotations

import math

import pandas as pd

from lib import figures
from lib.folders import MANIFEST
from lib.report.page import Block, Picture, Pictures
from lib.report.study import TRAIN, Study
from lib.study import runs
from lib.study.runs import Run
from lib.tables import Table, Value, escape, over_seeds

# column of the frame -> title, digits; the measures that have it in results[...]
COLUMNS = {
    "joint": ("joint bits per masked token", 3),
    "marginal": ("product of the tokens' own probabilities", 3),
    "gain": ("gain by dependence", 3),
    "bits": ("bits of a token by itself", 3),
    "recovered": ("recovered, %", 1),
    "valid": ("valid fills, %", 1),
    "second_state": ("masks with a second state, %", 1),
    "divergence": ("divergence of a mask's states, bits", 2),
    "own_share": ("paths through a mask's own states, %", 1),
    "hydrogens": ("atoms: hydrogens, %", 1),
    "charge": ("atoms: charge, 100 R²", 1),
}
NOTE = (
    "Bits are -log2 of the probability of the masked validation tokens, at the p of the training and the "
    "same tokens for all models: joint, of all masked tokens of a sample together; and of each by itself. "
    "Each run uses the learning rate that the first seed chose, and the figures are of the other seeds: mean "
    "± standard deviation. A lead is the MLM's bits less the model's, ± its standard error over seeds; at "
    "equal FLOPs it is against the MLM trained for longer, between whose lengths bits are interpolated in "
    "the logarithm of FLOPs, seed by seed. FLOPs count every layer at all of its tokens."
)


def frame(study: Study, name: str) -> pd.DataFrame:
    """A row for each pre-training that counts: the run, seed, learning rate, FLOPs, and COLUMNS."""
    rows, begun = [], {folder: run for run, folder in study.begun.items()}
    for run in study.experiments[name].runs:
        for folder in study.folders(run):
            training, one = study.reader.read(folder / TRAIN) or {}, begun[folder]
            row = {
                "name": run.name,
                "label": run.label,
                "p": run.p,
                "k": run.k,
                "seed": one.seed,
                "lr": one.lr,
            }
            row |= {"updates": training.get("updates"), "flops": training.get("flops")}
            row["commit"] = (study.reader.read(folder / MANIFEST) or {}).get("commit")
            rows.append(row | _results(study, folder, run))
    return pd.DataFrame(rows)


def _results(study: Study, folder, run: Run) -> dict[str, float]:
    """What the measures of a pre-training found, by COLUMNS."""
    found: dict[str, float] = {}
    for measure in (runs.PROBE, runs.JOINT, runs.FILLING, runs.USE_OF_STATES):
        content = study.reader.read(folder / f"{measure}.json")
        last = content["rows"][-1] if content and "rows" in content else content
        for one in (last or {"results": []})["results"]:
            if one["mask_prob"] == run.own_ratio:
                values = {
                    key: value["mean"] if isinstance(value, dict) else value for key, value in one.items()
                }
                found |= {key: value for key, value in values.items() if key in COLUMNS}
                if "accuracy" in values:
                    found["recovered"] = values["accuracy"]
    if atoms := study.reader.read(folder / f"{runs.ATOMS}.json"):
        found |= {key: atoms["results"][key]["model"]["mean"] for key in ("hydrogens", "charge")}
    for key in found.keys() & {key for key, (title, _) in COLUMNS.items() if "%" in title or "100" in title}:
        found[key] *= 100
    return found


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
        points = one.dropna(subset=["flops", column]).sort_values("flops")
        pairs = zip(
            points[["flops", column]].to_numpy(), points[["flops", column]].to_numpy()[1:], strict=False
        )
        for (low, before), (high, after) in pairs:
            if low <= flops <= high * (1 + 1e-9):
                share = math.log(flops / low) / math.log(high / low)
                found[seed] = before + share * (after - before)
    return pd.Series(found, dtype=float)


def blocks(study: Study, name: str, prefix: str) -> list[Block]:
    """The learning rates, the table and the pictures of a comparison; writes its frame to OUTPUT/NAME.csv."""
    data, result = frame(study, name), [escape(NOTE)]
    if data.empty:
        return [*result, escape("There are no results yet.")]
    data.to_csv(study.output / f"{name}.csv", index=False, float_format="%.6g")
    known = study.experiments[name].runs
    result += [_rates(study, known), _table(study, known, data)]
    bits = "joint" if "joint" in data else "bits"
    pictures = []
    if bits in data:
        for p, part in data.groupby("p"):
            title = f"{COLUMNS[bits][0]} (p = {figures.percent(p)})"
            pictures.append(Picture(f"{prefix}{name}-flops-p{p:g}", _over_flops(part, known, bits, title)))
    pictures += [
        Picture(f"{prefix}{name}-{measure}-p{p:g}", _over_training(study, known, p, measure, column))
        for measure, column in ((runs.CURVE, "bits"), (runs.USE_OF_STATES, "divergence"))
        if measure in study.experiments[name].measures
        for p in sorted({run.p for run in known})
    ]
    return [*result, Pictures(pictures)]


def _rates(study: Study, known: tuple[Run, ...]) -> Table:
    """Bits by learning rate, of the seed that chose."""
    chosen = {run: study.reader.read(study.output / "rates" / f"{run.name}.json") or {} for run in known}
    every = sorted({float(lr) for one in chosen.values() for lr in one.get("bits", {})})

    def remark(run: Run) -> str:
        tried = sorted(map(float, chosen[run].get("bits", {})))
        if not tried:
            return "rate not chosen" if run.row in study.undecided else "the size's rate"
        edges = {tried[0]: "the lowest rate tried is best", tried[-1]: "the highest rate tried is best"}
        return edges.get(chosen[run]["lr"], "")

    columns = {"model": lambda run: run.label, "p": lambda run: figures.percent(run.p)}
    for lr in every:
        columns[f"{lr:g}"] = lambda run, lr=lr: (
            f"{found:.3f}" if (found := chosen[run].get("bits", {}).get(f"{lr:g}")) is not None else ""
        )
    return Table.of(known, {**columns, "remark": remark})


def _table(study: Study, known: tuple[Run, ...], data: pd.DataFrame) -> Table:
    groups = dict(iter(data.groupby("name")))
    shown = [column for column in COLUMNS if column in data]
    bits = "joint" if "joint" in data else "bits"
    rows = []
    for run in known:
        part = groups.get(run.name)
        if part is None:
            rows.append([run.label, figures.percent(run.p), study.missing(run), *[""] * (len(shown) + 4)])
            continue
        mlm = data[data["name"].isin([r.name for r in known if r.is_mlm and r.p == run.p])]
        same = mlm[mlm["name"].isin([r.name for r in known if r.is_mlm and r.p == run.p and r.times == 1])]
        flops, base = part["flops"].mean(), same["flops"].mean()
        cells = [run.label, figures.percent(run.p), ", ".join(f"{lr:g}" for lr in sorted(set(part["lr"])))]
        for column in shown:
            value = over_seeds(part[column].dropna() if column in part else (), len(part))
            cells.append(value.text(COLUMNS[column][1]) if value else "")
        cells.append(f"{flops / base:.2f}" if base and flops else "")
        cells.append("" if run.is_mlm or bits not in data else difference(part[bits], same[bits]))
        equal = at_flops(mlm, bits, flops) if bits in data and not run.is_mlm else pd.Series(dtype=float)
        cells.append(difference(part[bits], equal) if len(equal) else "")
        rows.append([*cells, str(len(part))])
    heads = [COLUMNS[column][0] for column in shown]
    leads = ["FLOPs, times the MLM's", "lead, same updates", "lead, equal FLOPs", "seeds"]
    return Table(["model", "p", "learning rate", *heads, *leads], rows)


def _over_flops(data: pd.DataFrame, known: tuple[Run, ...], column: str, title: str):
    """Bits over FLOPs: the MLM's lengths of training as a line, the other models as points."""
    values: dict[str, dict[float, Value]] = {"MLM": {}}
    for run in known:
        part = data[data["name"] == run.name].dropna(subset=["flops", column]) if column in data else data[:0]
        if value := over_seeds(part[column]):
            values.setdefault("MLM" if run.is_mlm else run.label, {})[part["flops"].mean()] = value
    return figures.lines(values, title, "FLOPs of training", log="x")


def _over_training(study: Study, known: tuple[Run, ...], p: float, measure: str, column: str):
    """A measure of the checkpoints over updates, mean and standard deviation over seeds."""
    values: dict[str, dict[float, Value]] = {}
    for run in (run for run in known if run.p == p):
        points: dict[float, list[float]] = {}
        for content in study.read(run, f"{measure}.json"):
            for row in (content or {}).get("rows", []):
                found = row["results"][0][column]
                points.setdefault(row["updates"], []).append(
                    found["mean"] if isinstance(found, dict) else found
                )
        values[run.label] = {updates: Value(tuple(numbers)) for updates, numbers in points.items()}
    title = f"{COLUMNS[column][0]} (p = {figures.percent(p)})"
    return figures.lines(values, title, "updates", band=True)
