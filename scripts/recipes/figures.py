"""The pictures of the report, built without pyplot: they need no display and leave no state behind."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence

from matplotlib import colormaps
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from recipes.tables import Value

WIDTH = 5.4  # inches: half of a page, or the width of a phone
DPI = 160
COLOURS = ("#1b5e9e", "#d1660f", "#2a8a4a", "#8e44ad", "#b03a48", "#7f6a00")
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


def _figure(height: float, width: float = WIDTH) -> Figure:
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def grid(cells: Cells, title: str, digits: int, ks: Sequence[int], ps: Sequence[float]) -> Figure:
    """Values by k and p, coloured by value; grey where there is no cell, blank where nothing was measured."""
    known = [value for value in cells.values() if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    figure = _figure(0.55 * len(ks) + 0.9)
    axes = figure.add_subplot()
    for row, k in enumerate(ks):
        for column, p in enumerate(ps):
            value = cells.get((k, p))
            face, edge = "0.85" if (k, p) not in cells else "white", "white"
            if value is not None:
                face = colormaps["YlOrRd"](0.1 + 0.65 * ((value - low) / (high - low) if high > low else 0))
                axes.text(column, row, f"{value:.{digits}f}", ha="center", va="center", fontsize=10)
            elif face == "white":
                edge = "0.7"
            box = (column - 0.48, row - 0.48), 0.96, 0.96
            axes.add_patch(Rectangle(*box, facecolor=face, edgecolor=edge, lw=0.8))
    axes.set_xlim(-0.5, len(ps) - 0.5)
    axes.set_ylim(len(ks) - 0.5, -0.5)
    axes.set_xticks(range(len(ps)), [percent(p) for p in ps])
    axes.set_yticks(range(len(ks)), [str(k) for k in ks])
    axes.set(xlabel="p", ylabel="k")
    axes.set_title(title, fontsize=11)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return figure


def curves(
    runs: Mapping[tuple[int, float], Sequence[tuple[float, float]]], title: str, *, log: bool = False
) -> Figure:
    """A quantity over updates for each (k, p): colours tell p, dashes k. A single point gets a marker."""
    figure = _figure(4.2)
    axes = figure.add_subplot()
    styles = _styles(runs)
    for key, points in runs.items():
        style = {name: styles[key][name] for name in ("color", "linestyle")}
        marker = styles[key]["marker"] if len(points) == 1 else None
        if points:
            axes.plot(*zip(*points, strict=True), marker=marker, lw=1.5, **style)
    if log:
        axes.set_yscale("log")
    axes.set_xlabel("updates")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    _legend(figure, runs)
    return figure


def last_points(runs: Mapping[tuple[int, float], float], title: str) -> Figure:
    """A quantity at the end of training over p^k, on a logarithmic axis."""
    figure = _figure(4.2)
    axes = figure.add_subplot()
    styles = _styles(runs)
    for (k, p), value in runs.items():
        axes.plot(100 * p**k, value, styles[k, p]["marker"], color=styles[k, p]["color"])
    ratios = sorted({100 * p**k for k, p in runs if k == 1})
    axes.set_xscale("log")
    axes.set_xticks(ratios, [f"{ratio:g}%" for ratio in ratios], rotation=30)
    axes.minorticks_off()
    axes.set_xlabel("corrupted semantics $p^k$")
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    _legend(figure, runs)
    return figure


def _styles(runs: Iterable[tuple[int, float]]) -> dict[tuple[int, float], dict]:
    runs = list(runs)
    ks, ps = sorted({k for k, _ in runs}), sorted({p for _, p in runs})
    return {
        (k, p): {
            "color": colormaps["viridis"](ps.index(p) / max(1, len(ps))),
            "linestyle": DASHES[ks.index(k) % len(DASHES)],
            "marker": MARKERS[ks.index(k) % len(MARKERS)],
        }
        for k, p in runs
    }


def _legend(figure: Figure, runs: Iterable[tuple[int, float]]) -> None:
    by_p, by_k = {}, {}
    for (k, p), style in sorted(_styles(runs).items()):
        by_p.setdefault(p, Line2D([], [], color=style["color"], label=f"p = {percent(p)}"))
        by_k.setdefault(k, Line2D([], [], **{**style, "color": "0.3"}, label=f"k = {k}"))
    handles = [*(by_p[p] for p in sorted(by_p)), *by_k.values()]
    if handles:
        figure.legend(
            handles=handles, loc="outside lower center", ncols=5, fontsize=8, frameon=False, handlelength=3
        )


def lines(
    values: Mapping[str, Mapping[float, Value]],
    title: str,
    ylabel: str,
    xlabel: str = "p, %",
    styles: Mapping[str, dict] | None = None,
    *,
    band: bool = False,
    also: tuple[str, float] | None = None,
) -> Figure:
    """Values over numbers, a line per label, with error bars over seeds, or a band.

    Args:
        styles: of each label; by default the first label's is that of a baseline.
        also: label of a second x axis, and its units in one of the first's.
    """
    figure = _figure(3.8)
    axes = figure.add_subplot()
    for i, (label, found) in enumerate(values.items()):
        if not found:
            continue
        plain = {"color": COLOURS[(i - 1) % len(COLOURS)]} if i else {"color": "0.2", "ls": "--"}
        style = styles[label] if styles else plain
        xs = sorted(found)
        points = [found[x] for x in xs]
        centres = [value.centre for value in points]
        if band:
            marker = "o" if len(xs) == 1 else None
            axes.plot(xs, centres, label=label, lw=1.5, marker=marker, **style)
            below, above = zip(*(value.interval for value in points), strict=True)
            axes.fill_between(xs, below, above, color=style["color"], alpha=0.15, lw=0)
        else:
            axes.errorbar(xs, centres, _bars(points), marker="o", ms=5, capsize=3, label=label, **style)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    axes.set_title(title, fontsize=11)
    axes.grid(alpha=0.25)
    if also:
        name, unit = also
        axes.secondary_xaxis("top", functions=(lambda x: x * unit, lambda x: x / unit)).set_xlabel(name)
    if axes.get_legend_handles_labels()[0]:
        figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False, handlelength=3)
    return figure


def dots(
    rows: Sequence[str],
    paper: Mapping[str, Mapping[str, float | None]],
    ours: Mapping[str, Mapping[str, Value | None]],
    xlabel: str,
    title: str = "",
) -> Figure:
    """A row per task or method, a dot per model.

    The paper's dots are hollow and grey; ours have error bars over seeds.

    Args:
        paper, ours: model -> row -> value.
    """
    series = len(paper) + len(ours)
    figure = _figure(len(rows) * max(0.32, 0.14 * series) + 1.1 + 0.2 * ((series + 1) // 2))
    axes = figure.add_subplot()
    step = 0.8 / max(1, series)
    handles = []
    for i, (label, values) in enumerate([*paper.items(), *ours.items()]):
        places = [(y + (i - (series - 1) / 2) * step, values.get(row)) for y, row in enumerate(rows)]
        places = [(y, value) for y, value in places if value is not None]
        marker = {"marker": MARKERS[i % len(MARKERS)], "ls": "none", "ms": 5.5}
        if i < len(paper):
            style = {"color": PAPER_COLOUR, "mfc": "white", **marker}
            axes.plot([value for _, value in places], [y for y, _ in places], **style)
        else:
            style = {"color": COLOURS[(i - len(paper)) % len(COLOURS)], **marker}
            found = [value for _, value in places]
            centres = [value.centre for value in found]
            axes.errorbar(centres, [y for y, _ in places], xerr=_bars(found), capsize=2.5, **style)
        handles.append(Line2D([], [], label=label, **style))
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
    if len(handles) > 1:
        figure.legend(handles=handles, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    for text in figure.findobj(lambda artist: hasattr(artist, "set_parse_math")):
        text.set_parse_math(False)  # a model's name may hold dollars
    return figure


def _bars(values: Sequence[Value]) -> list[list[float]]:
    """[2, N]: how far error bars reach to either side."""
    below = [value.centre - value.interval[0] for value in values]
    return [below, [value.interval[1] - value.centre for value in values]]
