"""Writes the tables and figures of docs/results.md and its appendix from the CSV files in docs/results/.

    PYTHONPATH=scripts python docs/results/make.py

A table stands between `<!-- table: NAME -->` and `<!-- end -->`. To add runs, add rows and run this again.
"""

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
from lib.command_line import argument_parser, script
from lib.report.figures import COLOURS, percent, picture
from lib.report.page import markdown_table
from lib.report.results import cell
from lib.report.study import PAPER
from lib.workflow.runs import targets
from matplotlib.figure import Figure
from scipy import stats

DOCS = Path(__file__).resolve().parents[1]
PAGES = ("results.md", "results_appendix.md")
BLOCK = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
ARMS = {"mlm": "MLM", "exlm": "ExLM, k = 2"}
RATES = {2.5e-4: "2.5e-4", 5e-4: "5e-4", 1e-3: "1e-3", 2e-3: "2e-3"}  # of E1b
CHOOSING = [4, 5, 6]  # the seeds of E1b that are run at all rates
BESIDE = {  # columns of e1b.csv
    "r2_beyond_counts": "R² beyond counts",
    "joint:joint": "bits per masked token",
    "entropy:entropy": "entropy, plain mean",
    "entropy:entropy_posterior": "entropy, posterior",
    "states:second_state": "masks with a second state, %",
}
DIFFERENCES = {  # ExLM's less the MLM's: title, digits
    "score": ("100 log(RMSE of ExLM / MLM)", 1),
    "joint:joint": ("bits, ExLM less MLM", 3),
    "r2_beyond_counts": ("R² beyond counts, ExLM less MLM", 3),
}
E2 = {(1, 0.15): "k = 1, p = 15%", (4, 0.622): "k = 4, p = 62.2%", (1, 0.622): "k = 1, p = 62.2%"}
E2B = {  # whether both copies of a token are masked together, and p
    (True, 0.15): "cell 1, together: 15% masked, 15% in both copies",
    (False, 0.387): "cell 2, each by itself: 38.7% masked, 15% in both copies",
    (True, 0.387): "cell 3, together: 38.7% masked, 38.7% in both copies",
}


def read(name: str) -> pd.DataFrame:
    texts = dict.fromkeys(("commit", "seeds"), str)
    return pd.read_csv(DOCS / "results" / f"{name}.csv", dtype=texts).fillna({"flags": ""})


def paired(numbers: pd.Series, digits: int) -> str:
    """Returns the mean of differences, one of each seed, ± its standard error; * if the 95% interval
    (Student's t) excludes zero."""
    star = "*" if stats.ttest_1samp(numbers, 0).pvalue < 0.05 else ""
    return f"{numbers.mean():+z.{digits}f} ± {numbers.sem():.{digits}f}{star}"


def interval(numbers: pd.Series, digits: int) -> str:
    """Returns the 95% interval of the mean of differences, one of each seed, by Student's t."""
    low, high = stats.t.interval(0.95, len(numbers) - 1, numbers.mean(), numbers.sem())
    return f"{low:+z.{digits}f} to {high:+z.{digits}f}"


def units() -> pd.DataFrame:
    """Returns the rows of E1b, with their ``score``: 100 log(RMSE / that of a ridge on counts), mean over the
    properties."""
    data, ridge = read("e1b"), read("e1b_protocol").iloc[0, 1:9].astype(float)
    data = data[data["updates"] == 4000]
    return data.assign(score=100 * np.log(data[ridge.index] / ridge).mean(axis=1))


def e1b() -> pd.DataFrame:
    """Returns the arms of E1b by rate, over the seeds that are run at all rates."""
    table = []
    for (arm, rate), one in reversed([*units().query("seed in @CHOOSING").groupby(["arm", "rate"])]):
        row = {"model": ARMS[arm], "rate": RATES[rate]}
        row["100 log(RMSE / ridge's)"] = cell(one["score"], 1, count=False)
        row |= {title: cell(one[name], 3, count=False) for name, title in BESIDE.items()}
        table.append({**row, "seconds of a core": f"{one['seconds'].mean():,.0f}"})
    return pd.DataFrame(table)


def e1b_pairs() -> pd.DataFrame:
    """Returns ExLM's measures less the MLM's of the same seed, at the rates that the other seeds choose."""
    data = units().set_index(["arm", "rate", "seed"])
    scores, table, found = data["score"].unstack(), [], []
    for seed in scores:
        others = scores[scores.columns.intersection(CHOOSING).difference([seed])].mean(axis=1)
        rates = {arm: others[arm].idxmin() for arm in ARMS}
        mlm, exlm = (data.loc[(arm, rate, seed)] for arm, rate in rates.items())
        found.append({name: exlm[name] - mlm[name] for name in DIFFERENCES})
        table.append({"seed": f"{seed}"} | {f"{ARMS[arm]}: rate": RATES[one] for arm, one in rates.items()})
        table[-1] |= {title: f"{found[-1][name]:+z.{n}f}" for name, (title, n) in DIFFERENCES.items()}
    found = pd.DataFrame(found)
    for title, summary in (("mean", paired), ("95% interval", interval)):
        row = {title: summary(found[name], n) for name, (title, n) in DIFFERENCES.items()}
        table.append({"seed": title} | row)
    return pd.DataFrame(table).fillna("")


def cells() -> pd.DataFrame:
    """Returns R² of E2 by cell (k, p) and seed, of the longest trainings; p is NaN if untrained."""
    data = read("corruption")
    return data[data["p"].isna() | (data["updates"] == data["updates"].max())]


def corruption() -> pd.DataFrame:
    """Returns R² of each cell of E2 over seeds."""
    table = []
    for (k, p), one in cells().groupby(["k", "p"], dropna=False, sort=False):
        row = {"k": f"{k}", "p": "untrained" if pd.isna(p) else percent(p)}
        row |= {"p^k": "" if pd.isna(p) else percent(round(p**k, 3)), "seeds": f"{len(one)}"}
        row["validation loss, bits"] = cell(one["valid_bits"], 3, count=False)
        row["R², mean of 20 descriptors"] = cell(one["r2"], 3, count=False)
        table.append(row | {"R² beyond counts": cell(one["r2_beyond_counts"], 3, count=False)})
    return pd.DataFrame(table)


def prices() -> pd.DataFrame:
    """Returns the costs of E2 without seed 1, whose scores were known when R² beyond counts was chosen."""
    return prices_of(cells().query("seed > 1").set_index(["k", "p", "seed"]), E2)


def tied() -> pd.DataFrame:
    """Returns the costs of E2b."""
    return prices_of(read("e2b").set_index(["tied", "p", "seed"]), E2B)


def prices_of(data: pd.DataFrame, cells: dict[tuple, str]) -> pd.DataFrame:
    """Returns R² of three cells, and the cost of unreal tokens (first less second), of corrupted semantics
    (second less third) and the second cost less the first."""
    scores = data["r2_beyond_counts"].unstack("seed")
    first, second, third = (scores.loc[cell] for cell in cells)
    u, c = first - second, second - third
    rows = [{"": name, "R² beyond counts": f"{scores.loc[one].mean():.3f}"} for one, name in cells.items()]
    for name, price in {"u, unreal tokens": u, "c, corrupted semantics": c, "c - u": c - u}.items():
        found = price.dropna()
        rows.append({"": name, "R² beyond counts": paired(found, 3), "95% interval": interval(found, 3)})
    return pd.DataFrame(rows).fillna("")


def variance() -> pd.DataFrame:
    """Returns the shares of the variance of figure 5's entropies that p^k and p explain."""
    papers = {(run.k, run.p): PAPER.at[run.name, "entropy"] for run in targets()["figure5"].runs}
    ours = {(row.k, row.p): row.entropy for row in read("entropy").query("figure == 5").itertuples()}
    rows = []
    for name, values in {"the paper": papers, "ours": ours}.items():
        data = pd.DataFrame([(round(p**k, 2), p, value) for (k, p), value in values.items()])
        row = [name]
        for column in (0, 1):
            within = (data[2] - data.groupby(column)[2].transform("mean")).var(ddof=0)
            row += [f"{1 - within / data[2].var(ddof=0):.2f}", f"{data[column].corr(data[2]) ** 2:.2f}"]
        rows.append(row)
    return pd.DataFrame(rows, columns=["", "p^k, groups", "p^k, linear", "p, groups", "p, linear"])


def bits_of(rows: pd.DataFrame) -> tuple[float, float]:
    """Returns mean bits over seeds and the standard error (NaN: one seed); a row may sum up several."""
    one, n = rows.iloc[0], len(rows.iloc[0]["seeds"].split())
    return (one["bits"], one["bits_sd"] / n**0.5) if n > 1 else (rows["bits"].mean(), rows["bits"].sem())


def gap(figure: Figure) -> None:
    """Draws ExLM's bits less the MLM's over the tokens seen, at p = 15%; hollow: one seed."""
    axes = figure.add_subplot(xlabel="tokens seen, million", ylabel="ExLM - MLM, bits", xscale="log")
    data = read("pretraining").query("use == 'result' and flags == ''")
    for i, (corpus, k) in enumerate([("molecules", 2), ("molecules", 4), ("text", 2), ("text", 4)]):
        style = {"color": COLOURS[k // 2 - 1], "marker": "os"[i // 2], "ls": "none"}
        axes.plot([], [], label=f"{corpus}, k = {k}", **style)
        for one in read("experiments").query("p == 0.15 and what.str.contains(@corpus)").itertuples():
            part = data[data.experiment == one.name]
            exlm = part.query("model == 'exlm' and k == @k")
            if exlm.empty:
                continue
            mlm, of_mlm = bits_of(part.query("model == 'mlm' and updates == updates.min()"))
            bits, of_exlm = bits_of(exlm)
            error = math.hypot(of_mlm, of_exlm)
            alone = {"mfc": "white"} if math.isnan(error) else {"yerr": error, "capsize": 3}
            axes.errorbar(one.tokens_million * (1 + 0.02 * (k - 3)), bits - mlm, **alone, **style)
    axes.axhline(0, color="0.3", lw=1)
    axes.legend(fontsize=8, frameon=False)


TABLES = {table.__name__: table for table in (e1b, e1b_pairs, corruption, prices, tied, variance)}


@script
def main(argv: list[str] | None = None) -> None:
    argument_parser(__doc__).parse_args(argv)
    for page in (DOCS / name for name in PAGES):
        old = page.read_text(encoding="utf-8")
        new = BLOCK.sub(lambda block: f"{block[1]}{markdown_table(TABLES[block[2]]())}\n{block[3]}", old)
        page.write_text(new, encoding="utf-8")
    figure = Figure(figsize=(7, 3.6), layout="constrained")  # inches
    gap(figure)
    (DOCS / "results_gap.png").write_bytes(picture(figure))
