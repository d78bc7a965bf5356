"""The paper's numbers are the paper's."""

import re

import numpy as np
import pandas as pd
import pytest
from lib.files import CONFIGS
from lib.moleculenet import KNOWN
from lib.report.study import PAPER
from lib.workflow.runs import targets


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


def test_table_9_is_the_papers(printed_rows):
    rows = [cells for cells in printed_rows if len(cells) == 5 and cells[0].lower() in KNOWN]
    printed = {cells[0].lower(): [cells[1], *cells[3].replace(",", "").split("/")] for cells in rows}
    found = pd.read_csv(CONFIGS / "paper" / "table9.csv", index_col="set", dtype=str).drop(columns="type")
    assert {name: [*row] for name, row in found.iterrows()} == printed and printed.keys() == KNOWN.keys()


def test_the_grids_of_figures_3_4_5_and_8_are_the_papers(printed_rows):
    rows = [cells for cells in printed_rows if len(cells) == 6 and cells[0] in ("1", "2", "4", "8")]
    names = {(run.k, run.p): run.name for run in targets()["figure3"].runs}
    columns = ("MNLI", "corrupted", "entropy", "MNLI-m", "QNLI", "QQP", "RTE")
    assert len(rows) == 4 * len(columns)
    for i, cells in enumerate(rows):
        for p, cell in zip((0.0225, 0.15, 0.387, 0.622, 0.789), cells[1:], strict=True):
            if cell:
                assert PAPER.at[names[int(cells[0]), p], columns[i // 4]] == float(cell.rstrip("%")), cells


def test_scores_of_tables_2_4_and_13_are_the_papers(printed_rows):
    """Of each row: MNLI, QNLI, QQP, RTE and their average."""
    rows = [cells for cells in printed_rows if len(cells) in (6, 7) and not cells[0].isdigit()]
    printed = {tuple(cells[-5:]) for cells in rows if all(re.fullmatch(r"\d\d\.\d", x) for x in cells[-5:])}
    ours = PAPER[["MNLI", "QNLI", "QQP", "RTE", "Avg"]].dropna()
    assert {tuple(f"{x:.1f}" for x in row) for row in ours.itertuples(index=False)} == printed
