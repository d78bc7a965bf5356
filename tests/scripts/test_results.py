import re

import numpy as np
import pandas as pd
import pytest
import results
from scipy import stats

NUMBER = re.compile(r"(?<![\w.])\d+\.\d+(?![\w.])")
IN_TABLES = "".join(results.markdown_table(table()) for table in results.TABLES.values())
IN_FILES = "".join(path.read_text() for path in (results.DOCS / "results").glob("*.csv"))
PAPERS = {"104.2", "54.7", "79.6", "72.8", "91.6", "64.5", "78.2"}  # quoted from tables 1 and 12


@pytest.mark.parametrize("name", results.PAGES)
def test_tables_are_those_of_the_csv_files(name):
    page = (results.DOCS / name).read_text(encoding="utf-8")
    assert results.filled_in(page) == page, "run scripts/results.py"


@pytest.mark.parametrize("name", results.PAGES)
def test_every_number_of_the_prose_is_in_a_table_or_a_csv_file(name):
    page = results.BLOCK.sub("", (results.DOCS / name).read_text(encoding="utf-8"))
    prose = re.sub(r"```.*?```|\]\([^)]*\)", "", page, flags=re.DOTALL)
    known = {f"{100 * p:g}" for file in ("states", "experiments", "entropy") for p in results.read(file)["p"]}
    known |= PAPERS | set(NUMBER.findall(IN_TABLES)) | set(NUMBER.findall(IN_FILES))
    assert set(NUMBER.findall(prose)) <= known


def test_the_numbers_that_are_quoted_are_the_papers():
    every = "".join(path.read_text() for path in (results.DOCS.parent / "configs" / "paper").glob("*.json"))
    for number in PAPERS:
        assert re.search(rf"\b{number.rstrip('0')}0*\b", every), number


def test_a_difference_of_means_is_that_of_the_seeds():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0, 1, 4), rng.normal(5, 2, 3)
    alone = [results.Mean(pd.DataFrame({"bits": values}), "bits") for values in (ours, theirs)]
    rows = [
        {"bits": v.mean(), "bits_sd": v.std(ddof=1), "seeds": " ".join("1" * len(v))} for v in (ours, theirs)
    ]
    pooled = [results.Mean(pd.DataFrame([row]), "bits") for row in rows]
    error = np.hypot(*(v.std(ddof=1) / len(v) ** 0.5 for v in (ours, theirs)))
    significant = stats.ttest_ind(ours, theirs, equal_var=False).pvalue < 0.05
    expected = f"{ours.mean() - theirs.mean():+.2f} ± {error:.2f}" + "*" * int(significant)
    assert alone[0].minus(alone[1], 2) == pooled[0].minus(pooled[1], 2) == expected


def test_a_single_seed_has_no_error():
    one = results.Mean(pd.DataFrame([{"bits": 2.0, "bits_sd": np.nan, "seeds": "1"}]), "bits")
    assert (one.text(1), one.minus(one, 1)) == ("2.0", "+0.0")


def test_rows_that_are_added_are_in_the_table_and_the_figure(monkeypatch):
    data = results.read("states")
    more = data.query("k == 1 or label == 'lattice'").assign(p=0.25)
    monkeypatch.setattr(results, "read", lambda name: pd.concat([data, more]))
    added = results.states().query("p == '25%'")
    assert list(added["model"]) == list(more["label"].unique())
    figure = results.Figure()
    results.states_figure(figure)
    assert [axes.get_title() for axes in figure.axes] == ["p = 25%", "p = 38.7%"]
