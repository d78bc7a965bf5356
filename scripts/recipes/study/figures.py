"""The study's pictures."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt  # noqa: E402

from recipes.study.grids import MASK_RATIOS, REPEATED, Run  # noqa: E402
from recipes.study.results import Value  # noqa: E402

Cells = dict[tuple[int, float], float | None]


def percent(p: float) -> str:
    return f"{100 * p:g}%"


def draw_grid(axes, cells: Cells, title: str, *, digits: int) -> None:
    """A k x p grid, coloured by value; grey where the paper has no run, blank where nothing was measured."""
    known = [value for value in cells.values() if value is not None]
    low, high = min(known, default=0), max(known, default=1)
    colours = plt.get_cmap("YlOrRd")
    for row, k in enumerate(REPEATED):
        for column, p in enumerate(MASK_RATIOS):
            value = cells.get((k, p))
            shade = (
                0.1 + 0.65 * ((value - low) / (high - low) if high > low else 0)
                if value is not None
                else None
            )
            face = colours(shade) if value is not None else "white" if p in REPEATED[k] else "0.85"
            edge, edge_width = ("0.8", 0.8) if face == "white" else ("white", 2)
            box = plt.Rectangle(
                (column - 0.5, row - 0.5), 1, 1, facecolor=face, edgecolor=edge, lw=edge_width
            )
            axes.add_patch(box)
            if value is not None:
                axes.text(column, row, f"{value:.{digits}f}", ha="center", va="center", fontsize=10)
    axes.set_xlim(-0.5, len(MASK_RATIOS) - 0.5)
    axes.set_ylim(len(REPEATED) - 0.5, -0.5)
    axes.set_xticks(range(len(MASK_RATIOS)), [percent(p) for p in MASK_RATIOS], fontsize=7)
    axes.set_yticks(range(len(REPEATED)), [str(k) for k in REPEATED])
    axes.set_xlabel("p")
    axes.set_ylabel("k")
    axes.tick_params(length=0)
    axes.set_title(title, fontsize=10)
    for spine in axes.spines.values():
        spine.set_visible(False)


def save_grids(path: Path, panels: list[tuple[str, Cells, int]]) -> None:
    """Panels (title, cells, digits) two in a row: the paper's beside ours."""
    rows = -(-len(panels) // 2)
    figure, axes = plt.subplots(rows, 2, figsize=(10, 3.2 * rows), squeeze=False, layout="constrained")
    for panel, place in zip(panels, axes.flat, strict=False):
        draw_grid(place, panel[1], panel[0], digits=panel[2])
    for place in axes.flat[len(panels) :]:
        place.set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


# name in the log -> title
CURVES = {
    "loss": "training loss, bits a masked token",
    "accuracy": "masked tokens predicted in training, %",
    "ppl": "perplexity of training",
}


MARKERS = dict(zip(REPEATED, "os^D", strict=True))  # of k, where there is a point for each run


def save_curves(path: Path, curves: dict[Run, list[dict]]) -> None:
    """The paper's three curves over updates, a colour for each p, a dash for each k; then loss over p^k."""
    figure, axes = plt.subplots(2, 2, figsize=(11, 8.4), layout="constrained")
    axes = axes.flat
    dashes = dict(zip(REPEATED, ("-", "--", "-.", ":"), strict=True))
    palette = plt.get_cmap("viridis")
    colour = {p: palette(i / len(MASK_RATIOS)) for i, p in enumerate(MASK_RATIOS)}
    for run, records in curves.items():
        style = {"color": colour[run.p], "ls": dashes[run.k], "lw": 1.6}
        for place, name in zip(axes, CURVES, strict=False):
            points = [(r["update"], r[name]) for r in records if r.get(name) is not None]
            marker = MARKERS[run.k] if len(points) == 1 else None  # no line goes through one point
            place.plot(*zip(*points, strict=True), marker=marker, **style) if points else None
        last = next((r["loss"] for r in reversed(records) if r.get("loss") is not None), None)
        if last is not None:
            axes[3].plot(100 * run.p**run.k, last, MARKERS[run.k], color=colour[run.p])
    for place, name in zip(axes, CURVES.values(), strict=False):
        place.set_xlabel("updates")
        place.set_title(name, fontsize=10)
    axes[2].set_yscale("log")
    axes[3].set_xscale("log")
    axes[3].set_xticks([100 * p for p in MASK_RATIOS], [percent(p) for p in MASK_RATIOS], rotation=30)
    axes[3].minorticks_off()
    axes[3].set_xlabel("corrupted semantics $p^k$")
    axes[3].set_title("training loss at the end, bits a masked token", fontsize=10)
    handles = [plt.Line2D([], [], color=colour[p], label=f"p = {percent(p)}") for p in MASK_RATIOS]
    handles += [
        plt.Line2D([], [], color="0.3", ls=dashes[k], marker=MARKERS[k], label=f"k = {k}") for k in REPEATED
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def save_lines(path: Path, panels: dict[str, dict[str, dict[float, Value]]], ylabel: str) -> None:
    """Panels of lines over p: title -> label -> p -> value, with the spread over seeds as bars."""
    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.2 * len(panels), 4), squeeze=False, sharey=True, layout="constrained"
    )
    for place, (title, lines) in zip(axes.flat, panels.items(), strict=True):
        for label, values in lines.items():
            points = sorted(values.items())
            if points:
                x = [100 * p for p, _ in points]
                y = [value.mean for _, value in points]
                bars = [value.spread or 0 for _, value in points]
                style = {"color": "0.2", "ls": "--"} if label == "MLM" else {}
                place.errorbar(x, y, bars, marker="o", capsize=3, label=label, **style)
        place.set_title(title, fontsize=10)
        place.set_xlabel("p, %")
        place.grid(alpha=0.3)
        if place.get_legend_handles_labels()[0]:
            place.legend(fontsize=8)
    axes[0, 0].set_ylabel(ylabel)
    figure.savefig(path, dpi=110)
    plt.close(figure)
