"""The pictures of the report, built without pyplot: they need no display and leave no state behind."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping, Sequence

from matplotlib import colormaps
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from lib.tables import Value

WIDTH = 5.4  # inches: half of a page, or the width of a phone
DPI = 160
COLOURS = ("#1b5e9e", "#d1660f", "#2a8a4a", "#8e44ad", "#b03a48", "#7f6a00", "#0097a7", "#5d4037")
PAPER_COLOUR = "0.45"
MARKERS = "os^Dv*"
DASHES = ("-", "--", "-.", ":")

Cells = Mapping[tuple[int, float], float | None]  # (k, p) -> value, None where it was not measured


def percent(p: float) -> str:
    return f"{100 * p:g}%"


def png(figure: Figure) -> bytes:
    """The picture as a PNG file."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=DPI, metadata={"Software": None})
    return file.getvalue()


def _figure(height: float) -> Figure:
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def heatmap(cells: Cells, title: str, digits: int, ks: Sequence[int], ps: Sequence[float]) -> Figure:
    """Values by k and p, coloured by value; grey where there is no cell, blank where nothing was measured."""
    known = [value for value in cells.values() if value is not None]
    figure = _figure(0.55 * len(ks) + 0.9)
    fill(
        figure.add_subplot(), cells, title, digits, ks, ps, (min(known, default=0.0), max(known, default=1.0))
    )
    return figure


def fill(
    axes: Axes, cells: Cells, title: str, digits: int, ks: Sequence[int], ps: Sequence[float], ends: tuple
) -> None:
    """A heatmap with a given colour scale."""
    low, high = ends
    axes.set(xlim=(-0.5, len(ps) - 0.5), ylim=(len(ks) - 0.5, -0.5), xlabel="p", ylabel="k")
    for (row, k), (column, p) in itertools.product(enumerate(ks), enumerate(ps)):
        value = cells.get((k, p))
        face, edge = ("white", "0.7") if (k, p) in cells else ("0.85", "white")
        if value is not None:
            share = (value - low) / (high - low) if high > low else 0
            face, edge = colormaps["YlOrRd"](0.1 + 0.65 * share), "white"
            axes.text(column, row, f"{value:.{digits}f}", ha="center", va="center", fontsize=10)
        box = (column - 0.48, row - 0.48), 0.96, 0.96
        axes.add_patch(Rectangle(*box, facecolor=face, edgecolor=edge, lw=0.8))
    axes.set_xticks(range(len(ps)), [percent(p) for p in ps])
    axes.set_yticks(range(len(ks)), [str(k) for k in ks])
    axes.set_title(title, fontsize=11)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def lines(
    values: Mapping[str, Mapping[float, Value]],
    title: str,
    xlabel: str,
    ylabel: str = "",
    *,
    styles: Mapping[str, dict] | None = None,
    band: bool = False,
    log: str = "",
) -> Figure:
    """Values over numbers, a line per label, with error bars over seeds, or a band.

    Args:
        styles: of each label; by default the first label's is that of a baseline.
        band: for many points; a single one gets a marker.
        log: ``x`` or ``y``, which is then logarithmic.
    """
    figure, handles = _figure(4.0), {}
    axes = figure.add_subplot()
    for i, (label, found) in enumerate(values.items()):
        if not found:
            continue
        plain = {"color": COLOURS[(i - 1) % len(COLOURS)]} if i else {"color": "0.2", "ls": "--"}
        style = {"marker": "o", **(styles[label] if styles else plain)}
        xs = sorted(found)
        points = [found[x] for x in xs]
        centres = [value.centre for value in points]
        if band:
            alone = {} if len(xs) == 1 else {"marker": None}
            handles[label] = axes.plot(xs, centres, lw=1.5, **{**style, **alone})[0]
            below, above = zip(*(value.interval for value in points), strict=True)
            axes.fill_between(xs, below, above, color=style["color"], alpha=0.15, lw=0)
        else:
            handles[label] = axes.errorbar(xs, centres, _bars(points), ms=5, capsize=3, **style)[0]
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    if log:
        axes.set(**{f"{log}scale": "log"})
    _legend(figure, handles)
    return figure


def _legend(figure: Figure, handles: Mapping[str, Artist]) -> None:
    """Below the picture, in as many columns as fit."""
    columns = max(1, 76 // (8 + max(map(len, handles), default=0)))
    place = {"loc": "outside lower center", "ncols": columns, "fontsize": 8, "frameon": False}
    if handles:
        figure.legend(handles.values(), handles.keys(), handlelength=3, **place)


def dots(
    rows: Sequence[str],
    paper: Mapping[str, Mapping[str, Value | float | None]],
    ours: Mapping[str, Mapping[str, Value | None]],
    xlabel: str,
    title: str = "",
) -> Figure:
    """A row per task or method, a dot per model, with error bars over seeds; the paper's are hollow and grey.

    Args:
        paper, ours: model -> row -> value.
    """
    series = len(paper) + len(ours)
    figure = _figure(len(rows) * max(0.32, 0.14 * series) + 1.1 + 0.2 * ((series + 1) // 2))
    axes = figure.add_subplot()
    step, handles = 0.8 / max(1, series), {}
    for i, (label, values) in enumerate([*paper.items(), *ours.items()]):
        ys = [y + (i - (series - 1) / 2) * step for y, row in enumerate(rows) if values.get(row) is not None]
        found = [values[row] for row in rows if values.get(row) is not None]
        found = [value if isinstance(value, Value) else Value((value,)) for value in found]
        style = {"color": PAPER_COLOUR, "mfc": "white", "capsize": 0}
        if i >= len(paper):
            style = {"color": COLOURS[(i - len(paper)) % len(COLOURS)], "capsize": 2.5}
        style |= {"marker": MARKERS[i % len(MARKERS)], "ls": "none", "ms": 5.5}
        handles[label] = axes.errorbar([value.centre for value in found], ys, xerr=_bars(found), **style)[0]
    for y in range(1, len(rows)):
        axes.axhline(y - 0.5, color="0.9", lw=0.8, zorder=0)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    axes.set_xlabel(xlabel)
    axes.set_title(title, fontsize=11)
    axes.grid(axis="x", alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    _legend(figure, handles if series > 1 else {})
    for text in figure.findobj(lambda artist: hasattr(artist, "set_parse_math")):
        text.set_parse_math(False)  # a model's name may hold dollars
    return figure


def _bars(values: Sequence[Value]) -> list[list[float]]:
    """[2, N]: how far error bars reach to either side."""
    below = [value.centre - value.interval[0] for value in values]
    return [below, [value.interval[1] - value.centre for value in values]]
