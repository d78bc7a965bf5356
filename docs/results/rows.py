"""The rows of the CSV files, as the tables and figures of docs/results.md need them."""

from pathlib import Path

import pandas as pd
from lib.report.figures import percent
from lib.report.study import PAPER
from lib.workflow.runs import targets

DOCS = Path(__file__).resolve().parents[1]


def read(name: str) -> pd.DataFrame:
    texts = dict.fromkeys(("commit", "seeds"), str)
    data = pd.read_csv(DOCS / "results" / f"{name}.csv", dtype=texts).fillna({"flags": "", "pretraining": ""})
    if {"label", "k", "joint"} <= {*data.columns}:
        told = (data["k"] == 1) | data["label"].str.contains("k = ")
        data["label"] = data["label"].where(told, data["label"] + ", k = " + data["k"].astype(str))
    return data


def entropies() -> dict[str, dict[tuple[int, float], float]]:
    """Returns figure 5: (k, p) -> entropy in bits, the paper's and ours."""
    ours = {(row.k, row.p): row.entropy for row in read("entropy").query("figure == 5").itertuples()}
    papers = {(run.k, run.p): PAPER.at[run.name, "entropy"] for run in targets()["figure5"].runs}
    return {"the paper": papers, "ours": ours}


def by_passes() -> pd.DataFrame:
    """Returns the runs of passes.csv with ``setting``, the masking probability of the measure, as a text."""
    data = read("passes").assign(passes=lambda rows: rows["passes"].replace("each", "one by one"))
    return data.assign(setting=data["mask_prob"].map(lambda p: "one mask" if p < 0.01 else percent(p)))
