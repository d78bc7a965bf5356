"""The figures of docs/results.md and README.md."""

import pandas as pd
from lib.report.figures import COLOURS, QUICKSTART, fill, lines, percent
from lib.report.tables import over_seeds
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rows import by_passes, entropies, read, sizes
from summary import Known, mean, standard_error

VARIANTS = "R =|first layer|w/o|k = 2"  # of the states, that only the table has
OTHERS = "continued|from the MLM|absolute"  # of the passes


def add_gap(axes: Axes, x: float, exlm: Known, mlm: Known, **style) -> None:
    """Draws a point of ExLM's bits less the MLM's, with its standard error; hollow: one seed."""
    error = standard_error(exlm, mlm)
    alone = {"mfc": "white"} if error is None else {"yerr": error, "capsize": 3}
    axes.errorbar(x, exlm.centre - mlm.centre, **alone, **style)


def gap_figure(figure: Figure) -> None:
    """Draws ExLM's bits less the MLM's over the tokens seen, at p = 15%; hollow: one seed."""
    axes = figure.add_subplot(xlabel="tokens seen, million", ylabel="ExLM - MLM, bits", xscale="log")
    data = read("pretraining").query("use == 'result' and flags == ''")
    for i, (corpus, k) in enumerate([("molecules", 2), ("molecules", 4), ("text", 2), ("text", 4)]):
        style = {"color": COLOURS[k // 2 - 1], "marker": "os"[i // 2], "ls": "none"}
        axes.plot([], [], label=f"{corpus}, k = {k}", **style)
        for one in read("experiments").query("p == 0.15 and what.str.contains(@corpus)").itertuples():
            part = data[data.experiment == one.name]
            mlm = mean(part.query("model == 'mlm' and updates == updates.min()"), "bits")
            if not (exlm := mean(part.query("model == 'exlm' and k == @k"), "bits")):
                continue
            add_gap(axes, one.tokens_million * (1 + 0.02 * (k - 3)), exlm, mlm, **style)
    axes.axhline(0, color="0.3", lw=1)
    axes.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.legend(fontsize=8, frameon=False)


def figure5(figure: Figure) -> None:
    """Draws the paper's entropies and ours, on one colour scale."""
    titles = ("the paper, text", "ours, molecules")
    for axes, title, cells in zip(figure.subplots(1, 2), titles, entropies().values(), strict=True):
        fill(axes, cells, f"{title}: entropy, bits", 2, vmin=0, vmax=9)


def states_figure(figure: Figure) -> None:
    """Draws joint bits less the shortest MLM's over FLOPs, a panel for each corpus and p; error bars are
    standard deviations."""
    data = pd.concat([read("states").assign(corpus="molecules"), read("states_text").assign(corpus="text")])
    data = data[~data["label"].str.contains(VARIANTS)]
    colours = dict(zip(data[data.k > 1]["label"].unique(), COLOURS, strict=False))
    groups = list(data.groupby(["corpus", "p"]))
    panels = figure.subplots(2, (len(groups) + 1) // 2, sharex=True, sharey=True).flat
    for axes, ((corpus, p), part) in zip(panels, groups, strict=False):
        part = part.assign(model=part["label"].where(part["k"] > 1, "MLM, by length of training"))
        mlm = mean(part.query("k == 1 and updates == updates.min()"), "joint").centre
        for label, one in part.groupby("model", sort=False):
            lengths = [length for _, length in one.groupby("updates")]
            xs = [length.flops.mean() / part.query("k == 1")["flops"].min() for length in lengths]
            ys = [mean(length, "joint") for length in lengths]
            style = {"color": colours.get(label, "0.2"), "marker": "o", "capsize": 3, "label": label}
            axes.errorbar(xs, [y.centre - mlm for y in ys], [y.spread or 0 for y in ys], **style)
        axes.axhline(0, color="0.75", lw=0.8, zorder=0)
        axes.set_title(f"{corpus}, p = {percent(p)}", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xscale("log")
        axes.set_xticks([1, 2, 4, 8], ["1", "2", "4", "8"])
        axes.minorticks_off()
    figure.supxlabel("FLOPs of training, times the MLM's", fontsize=10)
    figure.supylabel("joint bits per masked token, less the MLM's (lower is better)", fontsize=10)
    handles = {}
    for axes in figure.axes:
        handles |= {label: one for one, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=3, frameon=False, fontsize=8)


def passes_figure(figure: Figure) -> None:
    """Draws joint bits and valid fillings over passes, a column for each masking probability."""
    shown = "setting != 'one mask' and group == group.iloc[-1] and not label.str.contains(@OTHERS)"
    data = by_passes().query(shown)
    counts = ["1", "2", "4", "one by one"]
    settings = list(data["setting"].unique())
    panels = figure.subplots(2, len(settings), sharex=True)
    for axes, column in zip(panels, ("joint", "valid"), strict=True):
        for panel, setting in zip(axes, settings, strict=True):
            for i, (label, one) in enumerate(data[data["setting"] == setting].groupby("label", sort=False)):
                points = [(x, mean(one[one["passes"] == count], column)) for x, count in enumerate(counts)]
                points = [(x, value) for x, value in points if value]
                xs, ys = [x for x, _ in points], [y.centre for _, y in points]
                style = {"color": COLOURS[i - 1] if i else "0.2", "marker": "o", "ms": 3, "capsize": 2}
                panel.errorbar(xs, ys, [y.spread or 0 for _, y in points], label=label, **style)
            panel.spines[["top", "right"]].set_visible(False)
        axes[0].set_ylabel({"joint": "joint bits per masked token", "valid": "valid fillings, %"}[column])
    for panel, setting in zip(panels[0], settings, strict=True):
        panel.set_title(f"p = {setting}", fontsize=11)
    panels[1][0].set_xticks(range(len(counts)), ["1", "2", "4", "M"])
    figure.supxlabel("passes (M: one by one)", fontsize=10)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, frameon=False, fontsize=8)


def scale_figure(figure: Figure) -> None:
    """Draws ExLM's joint bits less the MLM's of the same size, over its FLOPs, by p; hollow: one seed."""
    data = sizes()
    panels = figure.subplots(1, data["p"].nunique(), sharey=True)
    for axes, (p, part) in zip(panels, data.groupby("p"), strict=True):
        mlms = {width: mean(one, "joint") for width, one in part[part["k"] == 1].groupby("width")}
        models = part[part["k"] > 1].sort_values("width").groupby("label", sort=False)
        for colour, (label, model) in zip(COLOURS, models, strict=False):
            xs, ys = [], []
            for width, one in model.groupby("width"):
                exlm, mlm = mean(one, "joint"), mlms[width]
                xs.append(one["flops"].mean())
                ys.append(exlm.centre - mlm.centre)
                add_gap(axes, xs[-1], exlm, mlm, marker="o", color=colour, zorder=3)
            axes.plot(xs, ys, color=colour, label=label)
        axes.axhline(0, color="0.3", lw=1)
        axes.set(title=f"p = {percent(p)}", xscale="log", xlabel="FLOPs of training")
    panels[0].set_ylabel("ExLM - MLM, joint bits")
    panels[-1].legend(fontsize=8, frameon=False)


def divergence_figure(figure: Figure) -> None:
    """Draws what a lattice gains by dependence over how much its states differed at first."""
    axes = figure.add_subplot(xscale="log", ylabel="gain by dependence, bits")
    axes.set_xlabel("divergence of a mask's states when training begins, bits")
    data = read("divergence")
    for i, (label, part) in enumerate(data.groupby("label", sort=False)):
        axes.plot(part["divergence_at_first"], part["gain"], "o", color=COLOURS[i], label=label)
    axes.legend(fontsize=8, frameon=False)


def quickstart_figure() -> Figure:
    """Returns joint bits of the quickstart's models over updates."""
    values = {}
    for (name, updates), part in read("quickstart_curves").groupby(["model", "updates"], sort=False):
        values.setdefault(QUICKSTART[name], {})[updates] = over_seeds(part["joint"])
    return lines(values, "joint bits per masked token", "updates", better="lower")
