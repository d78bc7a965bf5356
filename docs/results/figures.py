"""The figures of docs/results.md and README.md."""

from lib.report.figures import COLOURS, QUICKSTART, fill
from lib.report.tables import standard_error
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rows import by_passes, entropies, read
from summary import Known, mean

LABELS = QUICKSTART | {"exlm-lattice": "ExLM on a lattice"}
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


def divergence_figure(figure: Figure) -> None:
    """Draws what a lattice gains by dependence over how much its states differed at first."""
    axes = figure.add_subplot(xscale="log", ylabel="gain by dependence, bits")
    axes.set_xlabel("divergence of a mask's states when training begins, bits")
    data = read("divergence")
    for i, (label, part) in enumerate(data.groupby("label", sort=False)):
        axes.plot(part["divergence_at_first"], part["gain"], "o", color=COLOURS[i], label=label)
    axes.legend(fontsize=8, frameon=False)


def quickstart_figure(figure: Figure) -> None:
    """Draws joint bits of the quickstart's models over updates and over seconds of a core, mean and range of
    seeds; the MLM's longer training over seconds alone."""
    seconds = read("quickstart_seconds").set_index("model")["seconds"]
    data = read("quickstart_curves")
    panels = figure.subplots(1, 2, sharey=True)
    for panel, unit in zip(panels, ("updates", "seconds of a core"), strict=True):
        colours = dict(zip(LABELS, ("0.2", *COLOURS), strict=False))
        for (name, length), part in data.groupby(["model", "length"], sort=False):
            longer = length > data["length"].min()
            if longer and unit == "updates":
                continue
            each = part.groupby("updates")["joint"].agg(["mean", "min", "max"])
            xs = each.index * (1 if unit == "updates" else seconds[name])
            label = LABELS[name] + (f", {length:,} updates" if longer else "")
            style = {"color": colours[name], "ls": "--" if longer else "-", "label": label}
            panel.plot(xs, each["mean"], **style)
            panel.fill_between(xs, each["min"], each["max"], color=colours[name], alpha=0.15, lw=0)
        panel.set_xlabel(unit)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("joint bits per masked token (lower is better)")
    panels[1].legend(fontsize=8, frameon=False)
