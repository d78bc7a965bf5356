"""Writes the tables and figures of docs/results.md and its appendix from the CSV files in docs/results/.

    PYTHONPATH=scripts python docs/results/make.py

A table stands between `<!-- table: NAME -->` and `<!-- end -->`, a long one in tables/NAME.csv. To add runs,
add their rows to a CSV file and run this again. Rows of the workflow's OUTPUT/states.csv and graphs.csv
belong in states.csv, at any p.
"""

import re
from pathlib import Path

import pandas as pd
from lib.command_line import argument_parser, script
from lib.report.comparisons import leads
from lib.report.figures import COLOURS, QUICKSTART, fill, lines, percent, picture
from lib.report.page import markdown_table
from lib.report.study import PAPER
from lib.report.tables import Value, difference, of_summary, over_seeds, standard_error, text
from lib.workflow.runs import targets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

DOCS = Path(__file__).resolve().parents[1]
PAGES = ("results.md", "results_appendix.md")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MEASURES = {"recovered": 1, "flops_ratio": 2, "gain": 3, "second_state": 1, "valid": 1, "update_below_3": 0}
VARIANTS = "R =|first layer|w/o|k = 2"  # of the states, that only the table has
LONG = ("pretraining", "states", "states_text", "scale", "finetuning")  # tables that are files of their own
IN_BLOCKS = {"ExLM (paper)": "ExLM (paper)", "exlm-lattice, k = 8": "lattice, k = 8"}  # and names here
REMOVED = "penalty|temperature|layer-init"  # flags that only the CSV has


def read(name: str) -> pd.DataFrame:
    texts = dict.fromkeys(("commit", "seeds"), str)
    return pd.read_csv(DOCS / "results" / f"{name}.csv", dtype=texts).fillna({"flags": "", "pretraining": ""})


def mean(rows: pd.DataFrame, column: str) -> Value | None:
    """Over seeds: of rows of one seed each, or of one row that is itself a mean."""
    if len(rows) == 1 and f"{column}_sd" in rows and rows[column].notna().all():
        row = rows.iloc[0]
        return of_summary(row[column], row[f"{column}_sd"], len(row["seeds"].split()))
    return over_seeds(rows[column]) if column in rows else None


def entropies() -> dict[str, dict[tuple[int, float], float]]:
    """Figure 5: (k, p) -> entropy in bits, the paper's and ours."""
    ours = {(row.k, row.p): row.entropy for row in read("entropy").query("figure == 5").itertuples()}
    papers = {(run.k, run.p): PAPER.at[run.name, "entropy"] for run in targets()["figure5"].runs}
    return {"the paper": papers, "ours": ours}


def pretraining() -> pd.DataFrame:
    """Bits per masked token, less the MLM's and less ExLM's of the same k, and other measures."""
    rows, data = [], read("pretraining").query("use == 'result'")
    data = data[~data["flags"].str.contains(REMOVED)]
    for name, part in data.groupby("experiment", sort=False):
        mlm = mean(part.query("model == 'mlm' and updates == updates.min()"), "bits")
        for (model, flags, k, updates), one in part.groupby(["model", "flags", "k", "updates"], sort=False):
            bits = mean(one, "bits")
            exlm = mean(part.query("model == 'exlm' and flags == '' and k == @k"), "bits")
            row = {"experiment": name, "model": f"{model} {flags}".strip(), "k": f"{k}" if k > 1 else ""}
            row |= {"updates": f"{updates}", "bits": text(bits, 3)}
            row["less the MLM's"] = "" if bits == mlm else difference(bits, mlm)
            plain = not flags and model in ("mlm", "exlm")
            row["less ExLM's"] = "" if plain else difference(bits, exlm)
            others = {column: text(mean(one, column), digits) for column, digits in MEASURES.items()}
            rows.append(row | {column.replace("_", " "): value for column, value in others.items()})
    return pd.DataFrame(rows)


def plateau() -> pd.DataFrame:
    """When trainings of 800 updates left the unigram plateau, over all rates and seeds."""
    data, rows = read("plateau").query("updates == 800").drop_duplicates(), []
    labels = {run.name: run.label for target in ("graphs", "states") for run in targets()[target].runs}
    for (p, name), part in data.groupby(["p", "name"]):
        left = part["left_plateau"]
        share = f"{100 * part['own_share'].iloc[0]:.1f}" if part["own_share"].notna().any() else ""
        cells = [f"{left.median():g}", f"{left.min():g} to {left.max():g}", f"{left.count()} of {len(left)}"]
        rows.append([percent(p), labels[name], share, *cells])
    head = ["p", "model", "own share at first, %", "left at update, median", "range", "runs that left"]
    return pd.DataFrame(rows, columns=head)


def finetuning() -> pd.DataFrame:
    """Scores, and in brackets the difference from the MLM of the same pre-training."""
    data, rows = read("finetuning").rename(columns={"sd": "score_sd"}), []
    for (pretraining, model), part in data.groupby(["pretraining", "model"], sort=False):
        mlm, row = data.query("pretraining == @pretraining and model == 'MLM'"), [pretraining, model]
        for task in data["task"].unique():
            score, other = (mean(one[one.task == task], "score") for one in (part, mlm))
            change = difference(score, other, 1) if model != "MLM" else ""
            row.append(text(score, 1) + (f" ({change})" if change else ""))
        rows.append(row)
    return pd.DataFrame(rows, columns=["pre-training", "model", *data["task"].unique()])


def variance() -> pd.DataFrame:
    """What p^k and p explain of the entropies of figure 5."""
    rows = []
    for name, values in entropies().items():
        data = pd.DataFrame([(round(p**k, 2), p, value) for (k, p), value in values.items()])
        row = [name]
        for column in (0, 1):
            within = (data[2] - data.groupby(column)[2].transform("mean")).var(ddof=0)
            row += [f"{1 - within / data[2].var(ddof=0):.2f}", f"{data[column].corr(data[2]) ** 2:.2f}"]
        rows.append(row)
    return pd.DataFrame(rows, columns=["", "p^k, groups", "p^k, linear", "p, groups", "p, linear"])


def pretrained() -> pd.DataFrame:
    """The models in pretrained/ on validation molecules; ± is the standard error over molecules."""
    rows = []
    for measure, digits, *values in read("pretrained").itertuples(index=False):
        pairs = zip(values[::2], values[1::2], strict=True)
        rows.append([measure, *(f"{value:.{digits}f} ± {error:.{digits}f}" for value, error in pairs)])
    return pd.DataFrame(rows, columns=["measure", "ExLM", "MLM", "MLM of as many FLOPs"])


def add_gap(axes: Axes, x: float, exlm: Value, mlm: Value, **style) -> None:
    """A point of ExLM's bits less the MLM's, with its standard error; hollow: one seed."""
    error = standard_error(exlm, mlm)
    alone = {"mfc": "white"} if error is None else {"yerr": error, "capsize": 3}
    axes.errorbar(x, exlm.centre - mlm.centre, **alone, **style)


def gap_figure(figure: Figure) -> None:
    """ExLM's bits less the MLM's over the tokens seen, at p = 15%; hollow: one seed."""
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
    """The paper's entropies and ours, on one colour scale."""
    titles = ("the paper, text", "ours, molecules")
    for axes, title, cells in zip(figure.subplots(1, 2), titles, entropies().values(), strict=True):
        fill(axes, cells, f"{title}: entropy, bits", 2, vmin=0, vmax=9)


def states_figure(figure: Figure) -> None:
    """Joint bits less the shortest MLM's over FLOPs, a panel for each corpus and p; error bars are standard
    deviations."""
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
    handles = {
        label: one
        for axes in figure.axes
        for one, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside upper center", ncols=3, frameon=False, fontsize=8)


def sizes() -> pd.DataFrame:
    """The runs of three sizes: those of scale.csv, and of states.csv their like of width 128."""
    scale = read("scale")
    base = read("states").query("updates == 800 and label in @scale.label and p in @scale.p")
    data = pd.concat([scale, base.assign(width=128)]).sort_values(["p", "width"], kind="stable")
    return data.assign(setting=data["p"].map(percent) + ", width " + data["width"].astype(str))


def scale_leads() -> pd.DataFrame:
    """Each model's lead after the same updates, by p and width."""
    data = sizes().query("label != 'local'")
    table = leads(data, "setting").query("model != 'MLM'")
    table = table.pivot(index="model", columns="setting", values="lead, same updates")
    return table[data["setting"].unique()].reset_index()


def molecule_leads() -> pd.DataFrame:
    """Each model's lead over the MLM on molecules, after the same updates and at equal FLOPs, by p."""
    single = read("single_molecules").query("(k == 1 or updates == 2000) and not label.str.contains('norm')")
    blocks = read("states").query("k == 1 or (updates == 800 and label in @IN_BLOCKS)").replace(IN_BLOCKS)
    parts = {"in blocks": blocks, "single": single}
    parts = [leads(part.sort_values("p")).assign(molecules=name) for name, part in parts.items()]
    table = pd.concat(parts).query("~model.str.startswith('MLM')")
    table = table.pivot(
        index=["molecules", "model"], columns="p", values=["lead, same updates", "lead, equal FLOPs"]
    )
    table = table.sort_index(axis=1, level="p", sort_remaining=False).fillna("")
    table.columns = [p + what.removeprefix("lead").replace(", same updates", "") for what, p in table.columns]
    return table.reset_index()


def scale_figure(figure: Figure) -> None:
    """ExLM's joint bits less the MLM's of the same size, over its FLOPs, by p; hollow: one seed."""
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
    """What a lattice gains by dependence over how much its states differed at first."""
    axes = figure.add_subplot(xscale="log", ylabel="gain by dependence, bits")
    axes.set_xlabel("divergence of a mask's states when training begins, bits")
    data = read("divergence")
    for i, (label, part) in enumerate(data.groupby("label", sort=False)):
        axes.plot(part["divergence_at_first"], part["gain"], "o", color=COLOURS[i], label=label)
    axes.legend(fontsize=8, frameon=False)


def quickstart_figure() -> Figure:
    """Joint bits of the quickstart's models over updates."""
    values = {}
    for (name, updates), part in read("quickstart_curves").groupby(["model", "updates"], sort=False):
        values.setdefault(QUICKSTART[name], {})[updates] = mean(part, "joint")
    return lines(values, "joint bits per masked token", "updates", better="lower")


OWN = (pretraining, plateau, variance, molecule_leads, scale_leads, finetuning, pretrained)
TABLES = {table.__name__: table for table in OWN}
BY = {"states": "p", "states_text": "p", "single_molecules": "setting", "paper_sizes": "setting"}
BY["quickstart"] = "corpus"
TABLES |= {name: lambda name=name, by=by: leads(read(name), by) for name, by in BY.items()}
TABLES["scale"] = lambda: leads(sizes().query("width != 128"), "setting")
FIGURES = {  # file: function, width and height
    "results_gap": (gap_figure, 7, 3.6),
    "results_figure5": (figure5, 9, 2.9),
    "results_states": (states_figure, 8, 6.4),
    "results_scale": (scale_figure, 9, 3.6),
    "results_divergence": (divergence_figure, 7, 3.6),
}


def filled_in(page: str) -> str:
    """A page with its tables as the CSV files have them."""
    return BLOCK.sub(lambda block: f"{block[1]}{markdown_table(TABLES[block[2]]())}\n{block[3]}", page)


@script
def main(argv: list[str] | None = None) -> None:
    argument_parser(__doc__).parse_args(argv)
    for page in (DOCS / name for name in PAGES):
        page.write_text(filled_in(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name in LONG:
        TABLES[name]().to_csv(DOCS / "results" / "tables" / f"{name}.csv", index=False)
    for name, (draw, width, height) in FIGURES.items():
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        (DOCS / f"{name}.png").write_bytes(picture(figure))
    (DOCS / "quickstart.png").write_bytes(picture(quickstart_figure()))
