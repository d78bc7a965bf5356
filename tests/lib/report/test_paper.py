"""The paper's numbers are the paper's."""

import re

import numpy as np
import pandas as pd
import pytest
from lib.files import CONFIGS
from lib.report.study import PAPER
from lib.study.runs import targets


@pytest.fixture
def printed_rows(shared) -> list[list[str]]:
    """The rows of the tables in the paper's text, without its markup."""
    path = shared("paper", "003_91d29e1a608569de.txt")
    text = re.sub(r"</?u>|\*\*", "", path.read_text(encoding="utf-8"))
    return [line.split("\t") for line in text.splitlines() if "\t" in line]


def table(name) -> pd.DataFrame:
    return pd.read_csv(CONFIGS / "paper" / f"{name}.csv", index_col="model")


def check(name, printed: dict[str, list[str]]) -> None:
    for model, row in table(name).iterrows():
        found = [np.nan if cell == "-" else float(cell) for cell in printed[model]]
        np.testing.assert_array_equal(row[: len(found)], found, model)


def test_table_3_is_the_papers(printed_rows):
    rows = [cells for cells in printed_rows if len(cells) == 12 and cells[0] and "/" in cells[1]]
    names = [re.sub(r" _{LARGE}", " large", cells[0]) for cells in rows]
    check("table3", dict(zip(names, ([*one[1].split("/"), *one[2:]] for one in rows), strict=True)))
    assert set(names) == set(table("table3").index)


def test_table_1_is_the_papers(printed_rows):
    rows = [cells for cells in printed_rows if len(cells) == 9 and re.fullmatch(r"[\d.]+", cells[1])]
    names = [cells[0].replace(" _{RF}", " RF").replace("EXLM", "ExLM") for cells in rows]
    check("table1", dict(zip(names, (cells[1:] for cells in rows), strict=True)))
    found = table("table1").dropna()
    assert found.drop(columns="MEAN").mean(axis=1).tolist() == pytest.approx(found["MEAN"].tolist(), abs=0.06)


def test_the_studys_numbers_are_complete():
    """Figure 4's are p^k, and the averages those of the four tasks."""
    runs = {run.name: run for one in targets().values() for run in one.runs}
    for name, row in PAPER.iterrows():
        if row["corrupted"] > 0:
            assert row["corrupted"] == pytest.approx(100 * runs[name].p ** runs[name].k, rel=0.02)
        if row["Avg"] > 0:
            assert row["Avg"] == pytest.approx(row[["MNLI", "QNLI", "QQP", "RTE"]].mean(), abs=0.1)
    for name in ("figure3", "figure4", "figure5", "figure8", "table2", "table4", "table12", "table13"):
        target = targets()[name]
        assert (
            PAPER.loc[[run.name for run in target.runs], sorted({*target.numbers} - {"wall_hours"})]
            .notna()
            .all(axis=None)
        ), name
