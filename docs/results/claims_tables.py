"""The tables of the experiments of plan.md, from the rows that there are."""

import numpy as np
import pandas as pd
from lib.report.figures import percent
from lib.report.study import PAPER
from rows import DOCS, read
from summary import interval, mean, paired, text

ARMS = {"mlm": "MLM", "exlm": "ExLM (paper), k = 2", "mlm-longer": "MLM, as many FLOPs as ExLM"}
ARMS |= {"mlm-untrained": "MLM, untrained", "exlm-untrained": "ExLM (paper), untrained"}
PROPERTIES = ["logP", "QED", "TPSA"]
STATES = {
    "second_state": "masks with a second state, %",
    "divergence": "divergence of a mask's states, bits",
    "posterior_entropy": "entropy over a mask's states given its word, bits",
    "entropy": "entropy of the word, plain mean, bits",
    "entropy_posterior": "by the posterior, bits",
}
# what a price is: the cell (k, p) that it is paid from, and the one that it is paid for
PRICES = {
    "A, unreal tokens: p from 15% to 62.2% at p^k = 15%": ((1, 0.15), (4, 0.622)),
    "B, corrupted semantics: p^k from 15% to 62.2% at p = 62.2%": ((4, 0.622), (1, 0.622)),
    "A', by k = 2: p from 15% to 38.7% at p^k = 15%": ((1, 0.15), (2, 0.387)),
    "B', by k = 2: p^k from 15% to 38.7% at p = 62.2%": ((4, 0.622), (2, 0.622)),
}
CELLS = pd.MultiIndex.from_tuples(dict.fromkeys(sum(PRICES.values(), ())), names=["k", "p"])
# what E2 is scored by, and the seeds: the second was chosen when those of seed 1 were known
SCORES = {
    "R^2": ("r2", [1, 2, 3, 4]),
    "beyond counts": ("r2_beyond_counts", [2, 3, 4]),
    "beyond counts, seed 1": ("r2_beyond_counts", [1]),
}
EMBEDDINGS = {"ridge R2": "embeddings, R^2", "ridge R2 beyond counts": "beyond counts"}


def rows_of(name: str) -> pd.DataFrame:
    """Returns the rows of a file that may not exist yet."""
    return read(name) if (DOCS / "results" / f"{name}.csv").exists() else pd.DataFrame()


def planned(name: str) -> pd.DataFrame:
    return pd.DataFrame({"state": [f"planned: {name}.csv has no rows yet"]})


def finetuned_claims() -> pd.DataFrame:
    """Returns the RMSE of each arm of E1, and by how much its logarithm differs from the MLM's, paired by
    seed of pre-training; seed 0, which chose the rates, was not fine-tuned."""
    data = rows_of("finetuned_claims")
    if data.empty or (data := data[data["seed"] > 0]).empty:
        return planned("finetuned_claims")
    data["score"] = 100 * np.log(data[PROPERTIES]).mean(axis=1)
    mlm, table = data[data["arm"] == "mlm"].groupby("seed")["score"].mean(), []
    for (arm, rate), runs in sorted(data.groupby(["arm", "rate"]), key=lambda one: [*ARMS].index(one[0][0])):
        one = runs.groupby("seed").mean(numeric_only=True)
        row = {"model": ARMS[arm], "seeds": f"{len(one)}", "rate": f"{rate:g}" if rate else ""}
        row |= {f"RMSE of {name}": text(mean(one, name), 3) for name in PROPERTIES}
        less = (one["score"] - mlm).dropna() if arm != "mlm" else pd.Series(dtype=float)
        row |= {"all three, less the MLM's, %": paired(less, 1), "95% interval": interval(less, 1)}
        row["R^2 beyond counts"] = text(mean(one, "r2_beyond_counts"), 3)
        table.append(row | {"seconds of a core": f"{one['seconds'].mean():,.0f}"})
    return pd.DataFrame(table)


def claims_states() -> pd.DataFrame:
    """Returns the use of states of the ExLMs of E1, which were trained with dropout."""
    data = rows_of("finetuned_claims")
    if data.empty or (data := data.dropna(subset=["posterior_entropy"])).empty:
        return pd.DataFrame()
    table = []
    for (arm, rate), one in data.drop_duplicates(["arm", "rate", "seed"]).groupby(["arm", "rate"]):
        row = {"model": f"{ARMS[arm]}, rate {rate:g}", "seeds": f"{len(one)}"}
        table.append(row | {title: text(mean(one, name), 3) for name, title in STATES.items()})
    return pd.DataFrame(table)


def cells() -> pd.DataFrame:
    """Returns R^2 of E2 by cell (k, p) and seed, of the longest trainings; NaN is untrained."""
    data = rows_of("corruption")
    if data.empty:
        return data
    trained = data[data["p"].notna()]
    return pd.concat([trained[trained["updates"] == trained["updates"].max()], data[data["p"].isna()]])


def corruption() -> pd.DataFrame:
    """Returns R^2 of each cell of E2 over seeds."""
    if (data := cells()).empty:
        return planned("corruption")
    table = []
    for (k, p), one in data.groupby(["k", "p"], dropna=False, sort=False):
        trained = not pd.isna(p)
        row = {"k": f"{k}", "p": percent(p) if trained else "untrained"}
        row |= {"p^k": percent(round(p**k, 3)) if trained else "", "seeds": f"{len(one)}"}
        row["validation loss, bits"] = text(mean(one, "valid_bits"), 3)
        row["R^2, mean of 20 descriptors"] = text(mean(one, "r2"), 3)
        table.append(row | {"R^2 beyond counts": text(mean(one, "r2_beyond_counts"), 3)})
    return pd.DataFrame(table)


def prices() -> pd.DataFrame:
    """Returns the prices of unreal tokens and of corrupted semantics, by each score and the paper's on MNLI,
    as far as both cells have rows."""
    if (data := cells()).empty:
        return pd.DataFrame()
    table = pd.DataFrame(index=[*PRICES, "B - A", "B' - A'"])
    for title, (score, seeds) in SCORES.items():
        ours = data[data["seed"].isin(seeds)].set_index(["k", "p", "seed"])[score].unstack("seed")
        found = [difference.dropna() for difference in _differences(ours.reindex(CELLS))]
        table[title] = [paired(x, 3) for x in found]
        if len(seeds) > 1:
            table[f"95% interval, {title}"] = [interval(x, 3) for x in found]
    paper = pd.DataFrame({"MNLI": [PAPER.at[f"repeated-mlm-k{k}-p{p:g}", "MNLI"] for k, p in CELLS]}, CELLS)
    table["the paper, MNLI"] = [f"{x['MNLI']:+z.1f}" for x in _differences(paper)]
    return table[table.iloc[:, 0] != ""].rename_axis("price").reset_index()


def _differences(cells: pd.DataFrame) -> list[pd.Series]:
    """Returns the prices, and the two differences of prices, over the columns of a table of cells."""
    unreal, corrupted, *by_two = [cells.loc[start, :] - cells.loc[end, :] for start, end in PRICES.values()]
    return [unreal, corrupted, *by_two, corrupted - unreal, by_two[1] - by_two[0]]


def box() -> pd.DataFrame:
    """Returns joint bits and R^2 of embeddings of the models for pretrained/, in brackets the lead over the
    first."""
    if (data := rows_of("box")).empty:
        return planned("box")
    table = {}
    for row in data.itertuples():
        count = {1: "one pass", 512: "one by one"}.get(row.passes, f"{row.passes:g} passes")
        masked = "one mask" if row.p < 0.01 else f"{percent(row.p)}, {count}"
        cell = f"{row.value:.3f}"
        if not pd.isna(row.lead) and row.model != data["model"].iloc[0]:
            error = "" if pd.isna(row.standard_error) else f" ± {row.standard_error:.3f}"
            cell += f" ({row.lead:+.3f}{error})"
        title = masked if row.measure == "joint" else EMBEDDINGS[row.measure]
        table.setdefault(row.model, {"model": row.model})[title] = cell
    return pd.DataFrame(table.values()).fillna("")
