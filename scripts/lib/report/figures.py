"""The pictures of the reports, built without pyplot: they need no display and leave no state behind."""

import io

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure

WIDTH = 5.4  # inches: half of a page, or the width of a phone
DPI = 160
COLOURS = ("#1b5e9e", "#d1660f", "#2a8a4a", "#8e44ad", "#b03a48", "#7f6a00", "#0097a7", "#5d4037")


def percent(p: float) -> str:
    return f"{100 * p:g}%"


def picture(figure: Figure) -> bytes:
    """Returns the content of a PNG."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def _axes(height: float, about: str) -> Axes:
    return Figure(figsize=(WIDTH, height), layout="constrained", label=about).add_subplot()


def heatmap(cells: pd.Series, title: str, digits: int) -> Figure:
    """Returns values by (k, p), coloured by value; grey where nothing was measured."""
    grid = cells.unstack()
    axes = _axes(0.55 * len(grid) + 0.9, title)
    colours = colormaps["YlOrRd"].with_extremes(bad="0.85")
    axes.imshow(grid, colours, aspect="auto", alpha=0.7)
    for (row, column), value in np.ndenumerate(grid):
        label = "" if np.isnan(value) else f"{value:.{digits}f}"
        axes.text(column, row, label, ha="center", va="center", fontsize=10)
    axes.set_xticks(range(grid.shape[1]), map(percent, grid.columns))
    axes.set_yticks(range(grid.shape[0]), grid.index)
    axes.set(xlabel="p", ylabel="k")
    axes.set_title(title, fontsize=11)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return axes.figure


def lines(points: pd.DataFrame, quantity: str, xlabel: str, title: str = "") -> Figure:
    """Returns ``y`` over ``x``, a line per ``label``, with mean and standard deviation over equal ``x``
    (seeds); the MLM's is dashed."""
    axes, handles = _axes(4.0, ", ".join(filter(None, (quantity, title)))), {}
    for i, (label, part) in enumerate(points.groupby("label", sort=False)):
        y = part.groupby("x")["y"].agg(["mean", "std"]).astype(float).fillna({"std": 0})
        style = {"color": "0.2", "ls": "--"} if label == "MLM" else {"color": COLOURS[i % len(COLOURS)]}
        marker = "o" if len(y) == 1 else None  # a single point needs a marker
        [handles[label]] = axes.plot(y.index, y["mean"], lw=1.5, marker=marker, **style)
        below, above = y["mean"] - y["std"], y["mean"] + y["std"]
        axes.fill_between(y.index, below, above, color=style["color"], alpha=0.15, lw=0)
    axes.set_xlabel(xlabel)
    axes.set_ylabel(quantity, fontsize=9)
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    if handles:  # below the picture, in as many columns as fit
        columns = max(1, 76 // (8 + max(map(len, handles))))
        place = {"loc": "outside lower center", "ncols": columns, "fontsize": 8, "frameon": False}
        axes.figure.legend(handles.values(), handles.keys(), handlelength=3, **place)
    return axes.figure
