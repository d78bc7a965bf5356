"""Writes the tables and figures of docs/results.md and its appendix from the CSV files in docs/results/.

    python scripts/results.py

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. To add runs, add their rows to a CSV file
and run this again. Rows of the workflow's OUTPUT/states.csv and graphs.csv belong in states.csv, at any p.
"""

import argparse
import re
from pathlib import Path

import numpy as np
import pandas as pd
from lib.figures import COLOURS, percent, png
from lib.paper import cells, numbers
from lib.report.comparisons import at_flops
from lib.report.page import markdown_table
from matplotlib.figure import Figure
from scipy import stats

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGES = ("results.md", "results_appendix.md")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MEASURES = {"recovered": 1, "flops_ratio": 2, "gain": 3, "second_state": 1, "valid": 1, "update_below_3": 0}

REMOVED = "penalty|temperature|layer-init"  # flags that only the CSV has


def read(name: str) -> pd.DataFrame:
    texts = dict.fromkeys(("commit", "seeds"), str)
    return pd.read_csv(DOCS / "results" / f"{name}.csv", dtype=texts).fillna({"flags": "", "pretraining": ""})


class Mean:
    """A mean over seeds: of rows of one seed each, or of one row that is itself a mean."""

    def __init__(self, rows: pd.DataFrame, column: str):
        values = rows[column].dropna() if column in rows else pd.Series(dtype=float)
        self.mean, self.sd, self.n = values.mean(), values.std(), len(values)
        if self.n == 1 and f"{column}_sd" in rows:
            self.sd, self.n = rows[f"{column}_sd"].iloc[0], len(rows["seeds"].iloc[0].split())

    def text(self, digits: int) -> str:
        spread = "" if np.isnan(self.sd) else f" ± {self.sd:.{digits}f}"
        return f"{self.mean:z.{digits}f}{spread}" if self.n else ""

    def error(self, other: "Mean") -> float:
        """The standard error of the difference; NaN if either has one seed."""
        return np.hypot(self.sd / max(self.n, 1) ** 0.5, other.sd / max(other.n, 1) ** 0.5)

    def minus(self, other: "Mean", digits: int) -> str:
        """The difference ± its standard error; * if its 95% interval (Welch's t) excludes zero."""
        if not (self.n and other.n):
            return ""
        text, error = f"{self.mean - other.mean:+z.{digits}f}", self.error(other)
        if np.isnan(error):
            return text
        both = (self.mean, self.sd, self.n), (other.mean, other.sd, other.n)
        test = stats.ttest_ind_from_stats(*both[0], *both[1], equal_var=False)
        return f"{text} ± {error:.{digits}f}" + ("*" if test.pvalue < 0.05 else "")


def experiments() -> pd.DataFrame:
    """The settings of each experiment."""
    data = read("experiments").fillna("")
    data["p"] = data["p"].map(percent)
    return data.astype(str).rename(columns=lambda column: column.replace("_", " "))


def pretraining() -> pd.DataFrame:
    """Bits per masked token, less the MLM's and less ExLM's of the same k, and other measures."""
    rows, head = [], ["experiment", "model", "k", "updates", "bits", "less the MLM's", "less ExLM's"]
    data = read("pretraining").query("use == 'result'")
    data = data[~data["flags"].str.contains(REMOVED)]
    for name, part in data.groupby("experiment", sort=False):
        mlm = Mean(part.query("model == 'mlm' and updates == updates.min()"), "bits")
        for (model, flags, k, updates), one in part.groupby(["model", "flags", "k", "updates"], sort=False):
            bits, exlm = (
                Mean(one, "bits"),
                Mean(part.query("model == 'exlm' and flags == '' and k == @k"), "bits"),
            )
            plain = not flags and model in ("mlm", "exlm")
            less = [
                "" if bits.mean == mlm.mean else bits.minus(mlm, 3),
                "" if plain else bits.minus(exlm, 3),
            ]
            others = [Mean(one, column).text(digits) for column, digits in MEASURES.items()]
            k = f"{k}" if k > 1 else ""
            rows.append([name, f"{model} {flags}".strip(), k, f"{updates}", bits.text(3), *less, *others])
    return pd.DataFrame(rows, columns=[*head, *(column.replace("_", " ") for column in MEASURES)])


def states(file: str = "states", by: str = "p") -> pd.DataFrame:
    """Joint bits, and the lead over the MLM after the same updates and at the same FLOPs."""
    columns = {"marginal": 3, "gain": 3, "second_state": 1, "divergence": 2}
    head = [by, "model", "seeds", "joint bits", *(column.replace("_", " ") for column in columns)]
    head, rows = [*head, "FLOPs, times the MLM's", "lead, same updates", "lead, equal FLOPs"], []
    for group, part in read(file).groupby(by, sort=False):
        mlms = part[part.k == 1]
        mlm = mlms[mlms.updates == mlms.updates.min()]
        for (label, k), one in part.groupby(["label", "k"], sort=False):
            joint, cost, equal = Mean(one, "joint"), "", pd.DataFrame({"joint": []})
            if "flops" in part:
                cost = f"{one.flops.mean() / mlm.flops.mean():.2f}"
                equal = pd.DataFrame({"joint": at_flops(mlms, "joint", one.flops.mean())})
            leads = [Mean(other, "joint").minus(joint, 3) if k > 1 else "" for other in (mlm, equal)]
            values = [Mean(one, column).text(digits) for column, digits in columns.items()]
            key = percent(group) if by == "p" else group
            rows.append([key, label, f"{joint.n}", joint.text(3), *values, cost, *leads])
    return pd.DataFrame(rows, columns=head)


def plateau() -> pd.DataFrame:
    """When trainings of 800 updates left the unigram plateau, over all rates and seeds."""
    data, rows = read("plateau").query("updates == 800").drop_duplicates(), []
    for (p, name), part in data.groupby(["p", "name"]):
        left = part["left_plateau"]
        share = f"{100 * part['own_share'].iloc[0]:.1f}" if part["own_share"].notna().any() else ""
        cells = [f"{left.median():g}", f"{left.min():g} to {left.max():g}", f"{left.count()} of {len(left)}"]
        rows.append([percent(p), name, share, *cells])
    head = ["p", "model", "own share at first, %", "left at update, median", "range", "runs that left"]
    return pd.DataFrame(rows, columns=head)


def finetuning() -> pd.DataFrame:
    """Scores, and in brackets the difference from the MLM of the same pre-training."""
    data = read("finetuning").rename(columns={"sd": "score_sd"})
    tasks, rows = list(dict.fromkeys(data["task"])), []
    for (pretraining, model), part in data.groupby(["pretraining", "model"], sort=False):
        mlm, row = data.query("pretraining == @pretraining and model == 'MLM'"), [pretraining, model]
        for task in tasks:
            score, other = (Mean(one[one.task == task], "score") for one in (part, mlm))
            change = score.minus(other, 1) if model != "MLM" else ""
            row.append(score.text(1) + (f" ({change})" if change else ""))
        rows.append(row)
    return pd.DataFrame(rows, columns=["pre-training", "model", *tasks])


def variance() -> pd.DataFrame:
    """What p^k and p explain of the entropies of figure 5."""
    ours = {(row.k, row.p): row.entropy for row in read("entropy").query("figure == 5").itertuples()}
    rows = []
    for name, values in (("the paper", cells(numbers("figure5")["grid"])), ("ours", ours)):
        data = pd.DataFrame([(round(p**k, 2), p, value) for (k, p), value in values.items()])
        row = [name]
        for column in (0, 1):
            within = (data[2] - data.groupby(column)[2].transform("mean")).var(ddof=0)
            row += [f"{1 - within / data[2].var(ddof=0):.2f}", f"{data[column].corr(data[2]) ** 2:.2f}"]
        rows.append(row)
    return pd.DataFrame(rows, columns=["", "p^k, groups", "p^k, linear", "p, groups", "p, linear"])


def gap_figure(figure: Figure) -> None:
    """ExLM's bits less the MLM's over the tokens seen, at p = 15%; hollow: one seed."""
    axes = figure.add_subplot(xlabel="tokens seen, million", ylabel="ExLM - MLM, bits", xscale="log")
    data = read("pretraining").query("use == 'result' and flags == ''")
    for i, (corpus, k) in enumerate([("molecules", 2), ("molecules", 4), ("text", 2), ("text", 4)]):
        style = {"color": COLOURS[k // 2 - 1], "marker": "os"[i // 2], "ls": "none"}
        axes.plot([], [], label=f"{corpus}, k = {k}", **style)
        for one in read("experiments").query("p == 0.15 and what.str.contains(@corpus)").itertuples():
            part = data[data.experiment == one.name]
            mlm = Mean(part.query("model == 'mlm' and updates == updates.min()"), "bits")
            exlm = Mean(part.query("model == 'exlm' and k == @k"), "bits")
            error, x = exlm.error(mlm), one.tokens_million * (1 + 0.02 * (k - 3))
            alone = {"mfc": "white"} if np.isnan(error) else {"yerr": error, "capsize": 3}
            axes.errorbar(x, exlm.mean - mlm.mean, **alone, **style)
    axes.axhline(0, color="0.3", lw=1)
    axes.set_xticks([1, 2, 5, 10, 20], ["1", "2", "5", "10", "20"])
    axes.minorticks_off()
    axes.legend(fontsize=8, frameon=False)


def figure5(figure: Figure) -> None:
    """The paper's entropies and ours, on one colour scale."""
    ours = {(row.k, row.p): row.entropy for row in read("entropy").query("figure == 5").itertuples()}
    panels = {"the paper, text": cells(numbers("figure5")["grid"]), "ours, molecules": ours}
    ks, ps = (sorted({key[i] for key in ours}) for i in (0, 1))
    for axes, (title, panel) in zip(figure.subplots(1, 2), panels.items(), strict=True):
        grid = [[panel.get((k, p), np.nan) for p in ps] for k in ks]
        axes.imshow(grid, cmap="YlOrRd", vmin=0, vmax=9, aspect="auto")
        for (k, p), value in panel.items():
            axes.text(ps.index(p), ks.index(k), f"{value:.2f}", ha="center", va="center")
        axes.set(
            title=f"{title}: entropy, bits", xlabel="p", ylabel="k", yticks=range(len(ks)), yticklabels=ks
        )
        axes.set_xticks(range(len(ps)), [percent(p) for p in ps])


def quickstart_figure(figure: Figure) -> None:
    """Joint bits of the quickstart's models over updates: mean and range of the seeds."""
    axes = figure.add_subplot(xlabel="updates", ylabel="joint bits per masked token (validation)")
    labels = read("quickstart").groupby("name")["label"].first()
    models = read("quickstart_curves").groupby("model", sort=False)
    for colour, (name, part) in zip(COLOURS, models, strict=False):
        found = part.groupby("updates")["joint"].agg(["mean", "min", "max"])
        axes.plot(found.index, found["mean"], color=colour, marker="o", label=labels[name])
        axes.fill_between(found.index, found["min"], found["max"], color=colour, alpha=0.2, lw=0)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)


def states_figure(figure: Figure) -> None:
    """Joint bits over FLOPs, a panel for each p; error bars are standard deviations."""
    data = read("states")
    colours = dict(zip(data[data.k > 1]["label"].unique(), COLOURS, strict=False))
    panels = figure.subplots(1, data["p"].nunique(), squeeze=False)[0]
    for axes, (p, part) in zip(panels, data.groupby("p"), strict=True):
        part = part.assign(model=part["label"].where(part["k"] > 1, "MLM, by length of training"))
        for label, one in part.groupby("model", sort=False):
            groups = [group for _, group in one.groupby("updates")]
            xs = [group.flops.mean() / part.query("k == 1")["flops"].min() for group in groups]
            ys = [Mean(group, "joint") for group in groups]
            style = {"color": colours.get(label, "0.2"), "marker": "o", "capsize": 3, "label": label}
            axes.errorbar(xs, [y.mean for y in ys], [y.sd for y in ys], **style)
        axes.set(
            title=f"p = {percent(p)}", xscale="log", xlabel="FLOPs", ylabel="joint bits per masked token"
        )
    panels[-1].legend(loc="upper left", bbox_to_anchor=(1, 1), fontsize=8, frameon=False)


TABLES = {
    table.__name__: table for table in (experiments, pretraining, states, plateau, variance, finetuning)
}
TABLES["quickstart"] = lambda: states("quickstart", "corpus")
FIGURES = {  # file: function, width and height
    "results_gap": (gap_figure, 7, 3.6),
    "results_figure5": (figure5, 9, 2.9),
    "results_states": (states_figure, 9, 3.6),
    "quickstart": (quickstart_figure, 7, 3.6),
}


def filled_in(page: str) -> str:
    """A page with its tables as the CSV files have them."""
    return BLOCK.sub(lambda block: f"{block[1]}{markdown_table(TABLES[block[2]]())}\n{block[3]}", page)


def main() -> None:
    argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    ).parse_args()
    for page in (DOCS / name for name in PAGES):
        page.write_text(filled_in(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name, (draw, width, height) in FIGURES.items():
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        (DOCS / f"{name}.png").write_bytes(png(figure))


if __name__ == "__main__":
    main()
