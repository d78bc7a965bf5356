"""Comparisons of models, each at its best learning rate: bits per masked token after the same updates and at
the same FLOPs, and the use of states. No figure or table of the paper."""

import math
from collections.abc import Callable

import numpy as np
import pandas as pd
from lib.files import MANIFEST
from lib.report import figures
from lib.report.page import Page
from lib.report.study import NUMBERS, Study, add_curves, read
from lib.report.tables import Value, difference, over_seeds, text
from lib.workflow.runs import Target

from fs_plugins.files import atomic

# columns of each run, if it was measured
COLUMNS = ("joint", "marginal", "gain", "bits", "recovered", "valid")
COLUMNS += ("states", "second_state", "divergence", "own_share")


def wide(study: Study, target: Target) -> pd.DataFrame:
    """Returns a row for each pre-training that counts: the run, seed, learning rate, FLOPs, and COLUMNS."""
    parts, first = [], ("lr", "updates", "flops")
    for run in target.runs:
        last = {key: study.last(run, key).set_index("seed") for key in (*first, *COLUMNS)}
        part = pd.DataFrame({key: rows["value"] for key, rows in last.items()}).rename_axis("seed")
        commit = last["updates"]["folder"].map(lambda folder: read(folder / MANIFEST, []).get("commit"))
        parts.append(part.assign(commit=commit, name=run.name, label=run.label, p=run.p, k=run.k))
    data = pd.concat(parts).reset_index()
    measured = [key for key in COLUMNS if data[key].notna().any()]
    return data[["name", "label", "p", "k", "seed", *first, "commit", *measured]]


def at_flops(mlm: pd.DataFrame, column: str, flops: float) -> dict[int, float]:
    """Returns the MLM's bits at a number of FLOPs, by seed, between its lengths of training, or half a
    percent beyond the longest; a seed of which these are not known is left out."""
    bits = {}
    for seed, runs in mlm.groupby("seed"):
        points = runs.dropna(subset=["flops", column]).sort_values("flops")
        there = points["flops"].to_numpy()
        if len(there) > 1 and there[0] <= flops <= 1.005 * there[-1]:
            bits[seed] = float(np.interp(math.log(flops), np.log(there), points[column]))
    return bits


def leads(data: pd.DataFrame, by: str = "p", compare: Callable = difference) -> pd.DataFrame:
    """Returns each model's COLUMNS, and its lead over the MLM (k = 1) after the same updates and at the same
    FLOPs (there over the seeds that both have, if there are any), among models that agree in the column
    ``by``; ``data`` is as of :func:`wide`. What stands for a lead is ``compare`` of the MLM's bits and the
    model's."""
    rows, shown = [], [column for column in COLUMNS if column in data]
    bits = shown[0]
    for group, part in data.groupby(by, sort=False):
        mlms = part[part["k"] == 1]
        shortest = mlms[mlms["updates"] == mlms["updates"].min()]
        for (label, updates), runs in part.groupby(["label", "updates"], sort=False, dropna=False):
            mlm = mlms[mlms["updates"] == updates]
            row = {by: figures.percent(group) if by == "p" else group, "model": label}
            row["seeds"] = f"{len(runs)}"
            row["updates"] = "" if pd.isna(updates) else f"{updates:.0f}"
            row["learning rate"] = ", ".join(f"{lr:g}" for lr in sorted(set(runs["lr"])))
            values = {column: over_seeds(runs[column]) for column in shown}
            for column, value in values.items():
                row[NUMBERS[column].title] = text(value, NUMBERS[column].digits)
            pairs = {"same updates": (over_seeds(mlm[bits]), values[bits])}
            if "flops" in part:
                flops = runs["flops"].mean()
                row["FLOPs, times the MLM's"] = text(flops / shortest["flops"].mean(), 2)
                there = at_flops(mlms, bits, flops)
                both = runs["seed"][runs["seed"].isin(there)]
                mlm_bits = over_seeds([there[seed] for seed in both] or there.values())
                pairs["equal FLOPs"] = mlm_bits, over_seeds(runs.loc[both.index, bits]) or values[bits]
            for name, pair in pairs.items():
                row[f"lead, {name}"] = "" if (runs["k"] == 1).all() else compare(*pair)
            rows.append(row)
    return pd.DataFrame(rows).fillna("")


def rates(study: Study, target: Target) -> pd.DataFrame:
    """Returns bits by learning rate, of the seed that chose."""
    rows = []
    for run in target.runs:
        scores = study.rates.get(run.name, {}).get("scores", {})
        bits = {f"{float(lr):g}": text(-score, 3) for lr, score in scores.items()}
        rows.append({"model": run.label, "p": figures.percent(run.p), **bits})
    return pd.DataFrame(rows).fillna("")


def add_comparison(page: Page, study: Study, target: Target) -> None:
    """Adds the learning rates, the table and the pictures of a comparison; writes its frame to
    OUTPUT/NAME.csv."""
    data = wide(study, target)
    if not (bits := next((column for column in COLUMNS if column in data), None)):
        return page.text("There are no results yet.")
    with atomic(study.output / f"{target.name}.csv") as file:
        data.to_csv(file, index=False, float_format="%.6g")
    if len((tried := rates(study, target)).columns) > 2:
        page.text("Bits by learning rate, of the seed that chose, where several were tried:")
        page.table(tried)
    page.table(leads(data))
    for p, part in data.groupby("p"):
        values: dict[str, dict[float, Value]] = {"MLM": {}}
        for (label, k, _), runs in part.groupby(["label", "k", "updates"], sort=False):
            if value := over_seeds(runs[bits]):
                values.setdefault("MLM" if k == 1 else label, {})[runs["flops"].mean()] = value
        about = {"xscale": "log", "title": f"p = {figures.percent(p)}", "better": "lower"}
        figure = figures.lines(values, NUMBERS[bits].title, "FLOPs of training", **about)
        page.picture(f"{target.name}-flops-p{p:g}", figure)
    for key in target.numbers:
        add_curves(page, study, target, key)
