"""Writes the tables and figures of docs/results.md and its appendix from the CSV files in docs/results/.

    PYTHONPATH=scripts python docs/results/make.py

A table stands between `<!-- table: NAME -->` and `<!-- end -->`, a long one in tables/NAME.csv. To add runs,
add their rows to a CSV file and run this again. Rows of the workflow's OUTPUT/states.csv and graphs.csv
belong in states.csv, at any p.
"""

import re
from collections.abc import Callable

import figures
import numpy as np
import pandas as pd
import torch
from claims_tables import box, claims_states, corruption, finetuned_claims, prices
from lib.command_line import argument_parser, script
from lib.report.comparisons import leads
from lib.report.figures import percent, picture
from lib.report.page import markdown_table
from lib.report.tables import difference, p_value
from lib.workflow.runs import targets
from matplotlib.figure import Figure
from rows import DOCS, by_passes, entropies, read
from summary import Known, holm, mean, paired, text

from fs_plugins.custom_ops.dag_loss import node_posteriors

PAGES = ("results.md", "lattice.md", "results_appendix.md")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
MEASURES = {"recovered": 1, "flops_ratio": 2, "gain": 3, "second_state": 1, "valid": 1, "update_below_3": 0}
# tables that are files of their own
LONG = ("pretraining", "states", "states_text", "scale", "finetuning", "plateau")
LONG += ("single_molecules", "passes", "paper_sizes")
IN_BLOCKS = {"ExLM (paper), k = 4": "ExLM (paper), k = 4", "exlm-lattice, k = 8": "lattice, k = 8"}
ALONE = {"1": "one pass", "one by one": "one by one"}
COUNTS = {"1": "one pass", "2": "two", "4": "four", "one by one": "one by one"}
DRUGLIKE = "group == 'drug-like' and not label.str.contains('absolute')"
COMPARED = f"{DRUGLIKE} and not label.str.contains('from the MLM|longer|k = 1|mixture')"
REMOVED_RUNS = {
    "exlm-local": "local",
    "exlm-lattice": "lattice",
    "exlm-lattice-last": "lattice, expanded last",
}
REMOVED_RUNS |= {"lattice": "lattice without state embeddings"}
REMOVED = "penalty|temperature|layer-init"  # flags that only the CSV has


def pretraining() -> pd.DataFrame:
    """Returns bits per masked token, less the MLM's and less ExLM's of the same k, and other measures."""
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
    """Returns when trainings of 800 updates left the unigram plateau, over all rates and seeds."""
    data, rows = read("plateau").query("updates == 800").drop_duplicates(), []
    labels = {f"{run}-p{p}": label for run, label in REMOVED_RUNS.items() for p in (15, 38, 62)}
    labels |= {run.name: run.label for target in ("graphs", "states") for run in targets()[target].runs}
    for (p, name), part in data.groupby(["p", "name"]):
        left = part["left_plateau"]
        share = f"{100 * part['own_share'].iloc[0]:.1f}" if part["own_share"].notna().any() else ""
        cells = [f"{left.median():g}", f"{left.min():g} to {left.max():g}", f"{left.count()} of {len(left)}"]
        rows.append([percent(p), labels[name], share, *cells])
    head = ["p", "model", "own share at first, %", "left at update, median", "range", "runs that left"]
    return pd.DataFrame(rows, columns=head)


def finetuning() -> pd.DataFrame:
    """Returns scores, and in brackets the difference from the MLM of the same pre-training."""
    data, rows = read("finetuning").rename(columns={"sd": "score_sd"}), []
    for (pretraining, model), part in data.groupby(["pretraining", "model"], sort=False):
        mlm, row = data.query("pretraining == @pretraining and model == 'MLM'"), [pretraining, model]
        for task in data["task"].unique():
            score, other = (mean(one[one.task == task], "score") for one in (part, mlm))
            change = difference(score, other, 1) if model != "MLM" else ""
            row.append(text(score, 1) + (f" ({change})" if change else ""))
        rows.append(row)
    return pd.DataFrame(rows, columns=["pre-training", "model", *data["task"].unique()])


def property_differences() -> pd.DataFrame:
    """Returns how much lower the RMSE of one model is than another's, paired by seed of pre-training: of each
    property, and of all as the mean of the logarithms, in %."""
    data, rows = read("properties").set_index(["model", "seed"])[["logP", "QED", "TPSA"]], []
    logs = 100 * np.log(data).mean(axis=1)
    exlm, lattice = (next(m for m in data.index.unique(0) if start in m) for start in ("ExLM", "lattice"))
    for model, other in ((lattice, "MLM"), (lattice, "MLM, continued"), (exlm, "MLM, continued")):
        less = data.loc[other] - data.loc[model]
        row = {"model": model, "than": other, "seeds": f"{len(less)}"}
        row |= {f"{name}": paired(less[name], 4 if name == "QED" else 3) for name in less}
        rows.append(row | {"all three, %": paired(logs[other] - logs[model], 1)})
    return pd.DataFrame(rows)


def variance() -> pd.DataFrame:
    """Returns what p^k and p explain of the entropies of figure 5."""
    rows = []
    for name, values in entropies().items():
        data = pd.DataFrame([(round(p**k, 2), p, value) for (k, p), value in values.items()])
        row = [name]
        for column in (0, 1):
            within = (data[2] - data.groupby(column)[2].transform("mean")).var(ddof=0)
            row += [f"{1 - within / data[2].var(ddof=0):.2f}", f"{data[column].corr(data[2]) ** 2:.2f}"]
        rows.append(row)
    return pd.DataFrame(rows, columns=["", "p^k, groups", "p^k, linear", "p, groups", "p, linear"])


def passes() -> pd.DataFrame:
    """Returns each model's joint bits and valid fillings, by masking probability and passes, over seeds."""
    rows = []
    for keys, one in by_passes().groupby(["group", "label", "setting", "passes"], sort=False):
        row = dict(zip(("models", "model", "masked", "passes"), keys, strict=True)) | {"seeds": f"{len(one)}"}
        titles = {"joint": ("joint bits per masked token", 3), "right": ("right, %", 1)}
        titles["valid"] = ("valid fillings, %", 1)
        for column, (title, digits) in titles.items():
            row[title] = text(mean(one, column), digits)
        rows.append(row)
    return pd.DataFrame(rows)


def of_models(shown: str, rows: Callable) -> pd.DataFrame:
    """Returns a row for each model of passes.csv: its name, seeds, and what ``rows`` tells of its runs."""
    table, data = [], by_passes().query(shown)
    for label, one in data.groupby("label", sort=False):
        table.append({"model": label, "seeds": f"{one['seed'].nunique()}", **rows(one)})
    return pd.DataFrame(table)


def bits(runs: pd.DataFrame, setting: str, count: str = "1") -> str:
    return text(mean(runs[(runs["setting"] == setting) & (runs["passes"] == count)], "joint"), 3)


def few() -> pd.DataFrame:
    """Returns what each model costs, and its joint bits with one mask and with 15%."""
    least = by_passes().query(DRUGLIKE)["flops"].min()

    def row(runs: pd.DataFrame) -> dict:
        each, one = runs.drop_duplicates("seed"), runs[runs["setting"] == "one mask"]
        found = {"updates": f"{runs['updates'].max():,}", "parameters": f"{runs['parameters'].max():,}"}
        found |= {"FLOPs, times the MLM's": f"{runs['flops'].max() / least:.2f}"}
        found |= {"seconds of a core": f"{each['seconds'].mean():,.0f}"}
        found |= {"one mask": text(mean(one, "joint"), 3), "right, %": text(mean(one, "right"), 1)}
        return found | {f"15%, {how}": bits(runs, "15%", count) for count, how in ALONE.items()}

    return of_models(COMPARED, row)


def many(setting: str) -> pd.DataFrame:
    """Returns joint bits with many masks, by the number of passes, and valid fillings of one pass."""

    def row(runs: pd.DataFrame) -> dict:
        found = {how: bits(runs, setting, count) for count, how in COUNTS.items()}
        part = runs[(runs["setting"] == setting) & (runs["passes"] == "1")]
        return found | {"valid fillings of one pass, %": text(mean(part, "valid"), 1)}

    return of_models(COMPARED, row)


def from_mlm() -> pd.DataFrame:
    """Returns the joint bits of trainings that went on from an MLM, all masks in one pass."""

    def row(runs: pd.DataFrame) -> dict:
        seconds = runs.drop_duplicates("seed")["seconds"].mean()
        found = {"updates": f"{runs['updates'].max():,}", "seconds": f"{seconds:,.0f}"}
        found |= {how: bits(runs, how) for how in ("one mask", "15%", "38.7%", "62.2%")}
        found["38.7%, one by one"] = bits(runs, "38.7%", "one by one")
        return found | {
            "effective states": text(mean(runs.groupby("seed").agg({"states": "mean"}), "states"), 2)
        }

    return of_models(f"{DRUGLIKE} and (label.str.contains('continued') or label.str.contains('from'))", row)


def quickstart() -> pd.DataFrame:
    """Returns the quickstart's models, with leads over the MLMs of molecules that have as many FLOPs, and as
    many seconds, as the lattice."""
    data = read("quickstart")
    table = leads(data, "corpus")
    found = data[data["corpus"] == "molecules"].set_index("name")
    lattice = table["model"].str.contains("lattice") & (table["corpus"] == "molecules")
    for title, updates in (("lead, equal FLOPs", 680), ("lead, equal seconds", 1050)):
        mlm = found[found["updates"] == updates]
        lead = difference(mean(mlm, "joint"), mean(found.loc[["exlm-lattice"]], "joint"))
        table[title] = lattice.map({True: lead, False: ""})
    return table


def by_width() -> pd.DataFrame:
    """Returns the runs of scale.csv, with p and width as ``setting``."""
    data = read("scale").sort_values(["p", "width"], kind="stable")
    return data.assign(setting=data["p"].map(percent) + ", width " + data["width"].astype(str))


def molecule_leads() -> pd.DataFrame:
    """Returns each model's lead over the MLM on molecules, after the same updates and at equal FLOPs, by p;
    ** if it is significant by Holm's method among all of them."""
    single = read("single_molecules").query("(k == 1 or updates == 2000) and not label.str.contains('norm')")
    blocks = read("states").query("k == 1 or (updates == 800 and label in @IN_BLOCKS)").replace(IN_BLOCKS)
    parts = []
    for name, part in (("in blocks", blocks), ("single", single)):
        found = leads(part.sort_values("p"), compare=lambda *pair: pair)
        parts.append(found.assign(molecules=name))
    table = pd.concat(parts).query("~model.str.startswith('MLM')")
    shown = ["lead, same updates", "lead, equal FLOPs"]
    table = table.pivot(index=["molecules", "model"], columns="p", values=shown)
    table = table.sort_index(axis=1, level="p", sort_remaining=False)
    pairs = [pair for pair in table.to_numpy().flat if isinstance(pair, tuple) and all(pair)]
    least = holm(p_value(*pair) for pair in pairs)

    def cell(pair: tuple[Known, Known]) -> str:
        found = difference(*pair) if isinstance(pair, tuple) else ""
        return f"{found}*" if found.endswith("*") and p_value(*pair) <= least else found

    table = table.map(cell)
    table.columns = [p + what.removeprefix("lead").replace(", same updates", "") for what, p in table.columns]
    return table.reset_index()


def own_share() -> pd.DataFrame:
    """Returns the probability that a mask's target is on one of its own states, where predictions are flat
    and transitions uniform, averaged over masks."""
    rows = []
    for k, masks, tokens in ((2, 10, 64), (4, 10, 64), (4, 19, 128), (4, 77, 512)):
        row, targets = {"k": f"{k}", "masks": f"{masks}", "tokens": f"{tokens}"}, masks + 2  # <s> and </s>
        start, end = torch.arange(k * targets)[:, None], torch.arange(k * targets)
        for graph, longest in (("dag", len(end)), ("local", 2 * k - 1)):
            edges = (end > start) & (end - start <= longest)
            links = (edges / edges.sum(1, keepdim=True).clamp(min=1)).log()
            lengths = torch.tensor([len(end)]), torch.tensor([targets])
            posteriors, _ = node_posteriors(torch.zeros(1, targets, len(end)), links[None], *lengths)
            own = posteriors[0].unflatten(1, (targets, k)).sum(2).diagonal()[1:-1]
            row[graph] = f"{100 * own.mean():.1f}%"
        rows.append(row)
    return pd.DataFrame(rows)


OWN = (pretraining, plateau, variance, molecule_leads)
OWN += (quickstart, own_share, finetuning, property_differences, passes, few, from_mlm)
OWN += (finetuned_claims, claims_states, corruption, prices, box)
TABLES = {table.__name__: table for table in OWN}
BY = {"states": "p", "states_text": "p", "single_molecules": "setting", "paper_sizes": "setting"}
TABLES |= {name: lambda name=name, by=by: leads(read(name), by) for name, by in BY.items()}
TABLES |= {"many38": lambda: many("38.7%"), "many62": lambda: many("62.2%")}
TABLES["scale"] = lambda: leads(by_width(), "setting")
FIGURES = {  # file: function, width and height
    "results_gap": (figures.gap_figure, 7, 3.6),
    "results_figure5": (figures.figure5, 9, 2.9),
    "results_passes": (figures.passes_figure, 9, 5.2),
    "results_divergence": (figures.divergence_figure, 7, 3.6),
    "quickstart": (figures.quickstart_figure, 8, 3.6),
}


def filled_in(page: str) -> str:
    """Returns a page with its tables as the CSV files have them."""

    def filled(block: re.Match) -> str:
        table = TABLES[block[2]]()
        return f"{block[1]}{markdown_table(table)}\n{block[3]}" if len(table) else f"{block[1]}{block[3]}"

    return BLOCK.sub(filled, page)


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
