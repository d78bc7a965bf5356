"""The pictures of the reports, built without pyplot: they need no display and leave no state behind."""

from __future__ import annotations

import io
from collections.abc import Collection, Mapping

import numpy as np
import pandas as pd
from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lib.tables import Value

WIDTH = 5.4  # inches: half of a page, or the width of a phone
DPI = 160
COLOURS = ("#1b5e9e", "#d1660f", "#2a8a4a", "#8e44ad", "#b03a48", "#7f6a00", "#0097a7", "#5d4037")
MARKERS = "os^Dv*"

Cells = Mapping[tuple[int, float], float | None]  # (k, p) -> value, None where it was not measured


def percent(p: float) -> str:
    return f"{100 * p:g}%"


def png(figure: Figure) -> bytes:
    """The picture as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def _axes(height: float) -> Axes:
    return Figure(figsize=(WIDTH, height), layout="constrained").add_subplot()


def heatmap(cells: Cells, title: str, digits: int) -> Figure:
    """Values by k and p, coloured by value; grey where nothing was measured."""
    axes = _axes(0.55 * len({k for k, _ in cells}) + 0.9)
    fill(axes, cells, title, digits)
    return axes.figure


def fill(axes: Axes, cells: Cells, title: str, digits: int, **ends: float) -> None:
    """A heatmap, with ``vmin`` and ``vmax`` of its colours if they are given."""
    grid = pd.Series(cells, dtype=float).unstack()
    colours = colormaps["YlOrRd"].with_extremes(bad="0.85")
    axes.imshow(grid, colours, aspect="auto", alpha=0.7, **ends)
    for (row, column), value in np.ndenumerate(grid):
        label = "" if np.isnan(value) else f"{value:.{digits}f}"
        axes.text(column, row, label, ha="center", va="center", fontsize=10)
    axes.set_xticks(range(grid.shape[1]), map(percent, grid.columns))
    axes.set_yticks(range(grid.shape[0]), grid.index)
    axes.set(xlabel="p", ylabel="k")
    axes.set_title(title, fontsize=11)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def lines(
    values: Mapping[str, Mapping[float, Value]],
    title: str,
    xlabel: str,
    *,
    band: bool = False,
    xscale: str = "linear",
) -> Figure:
    """Values over numbers, a line per label, with error bars over seeds; the first is the baseline.

    Args:
        band: for many points, instead of error bars; a single one gets a marker.
    """
    axes, handles = _axes(4.0), {}
    for i, (label, found) in enumerate(values.items()):
        if not found:
            continue
        style = {"color": COLOURS[(i - 1) % len(COLOURS)]} if i else {"color": "0.2", "ls": "--"}
        xs = sorted(found)
        points = [found[x] for x in xs]
        centres = [value.centre for value in points]
        if band:
            marker = "o" if len(xs) == 1 else None
            handles[label] = axes.plot(xs, centres, lw=1.5, marker=marker, **style)[0]
            below, above = zip(*(value.interval for value in points), strict=True)
            axes.fill_between(xs, below, above, color=style["color"], alpha=0.15, lw=0)
        else:
            bars = {"marker": "o", "ms": 5, "capsize": 3}
            handles[label] = axes.errorbar(xs, centres, _bars(points), **bars, **style)[0]
    axes.set(xlabel=xlabel, xscale=xscale)
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    _legend(axes.figure, handles)
    return axes.figure


def dots(values: Mapping[str, Mapping[str, Value]], title: str) -> Figure:
    """Values over names, such as tasks or methods, a colour per label, with error bars over seeds."""
    names = list(dict.fromkeys(name for found in values.values() for name in found))
    axes, handles = _axes(4.0), {}
    for i, (label, found) in enumerate(values.items()):
        xs = [names.index(name) + 0.1 * (i - len(values) / 2) for name in found]
        style = {"color": COLOURS[i % len(COLOURS)], "marker": MARKERS[i % len(MARKERS)], "ls": "none"}
        centres = [value.centre for value in found.values()]
        handles[label] = axes.errorbar(xs, centres, _bars(found.values()), capsize=2.5, **style)[0]
    axes.set_xticks(range(len(names)), names, rotation=30, ha="right", fontsize=8)
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    _legend(axes.figure, handles)
    for text in axes.figure.findobj(lambda artist: hasattr(artist, "set_parse_math")):
        text.set_parse_math(False)  # a model's name may hold dollars
    return axes.figure


def _legend(figure: Figure, handles: Mapping[str, Artist]) -> None:
    """Below the picture, in as many columns as fit."""
    columns = max(1, 76 // (8 + max(map(len, handles), default=0)))
    place = {"loc": "outside lower center", "ncols": columns, "fontsize": 8, "frameon": False}
    if handles:
        figure.legend(handles.values(), handles.keys(), handlelength=3, **place)


def _bars(values: Collection[Value]) -> list[list[float]]:
    """[2, N]: how far error bars reach to either side."""
    below = [value.centre - value.interval[0] for value in values]
    return [below, [value.interval[1] - value.centre for value in values]]
