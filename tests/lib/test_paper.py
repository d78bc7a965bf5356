"""The paper's numbers are the paper's, and complete."""

import re

import numpy as np
import pytest
from lib import paper
from lib.files import CONFIGS
from lib.study.runs import targets


@pytest.fixture
def printed_rows(shared) -> list[list[str]]:
    """The rows of the tables in the paper's text, without its markup."""
    path = shared("paper", "003_91d29e1a608569de.txt")
    text = re.sub(r"</?u>|\*\*", "", path.read_text(encoding="utf-8"))
    return [line.split("\t") for line in text.splitlines() if "\t" in line]


def as_numbers(cells: list[str]) -> list[float | None]:
    return [None if cell == "-" else float(cell) for cell in cells]


def test_each_figure_and_table_has_its_file():
    names = {path.stem for path in (CONFIGS / "paper").glob("*.json")}
    of_the_study = {name for name, one in targets().items() if one.of_the_paper}
    assert names == of_the_study | {"table1", "table3"}
    assert all(paper.numbers(name)["source"] for name in names)


def test_grids_have_the_papers_cells():
    grids = [paper.numbers(name)["grid"] for name in ("figure3", "figure4", "figure5")]
    runs = {(run.k, run.p) for run in targets()["figure5"].runs}
    for grid in [*grids, *paper.numbers("figure8")["grids"].values()]:
        assert paper.cells(grid).keys() == runs
    for (k, p), value in paper.cells(paper.numbers("figure4")["grid"]).items():
        assert value == pytest.approx(100 * p**k, rel=0.02)


def test_tables_of_methods_name_the_studys_runs():
    for name in ("table2", "table4", "table12", "table13"):
        rows = paper.numbers(name)["rows"]
        assert {row["run"] for row in rows} == {run.name for run in targets()[name].runs}
    for name in ("table2", "table4", "table13"):
        for row in paper.numbers(name)["rows"]:
            tasks = [row["values"][task] for task in ("MNLI", "QNLI", "QQP", "RTE")]
            assert row["values"]["Avg"] == pytest.approx(sum(tasks) / 4, abs=0.1)


def test_means_of_table_1():
    for name, mean in paper.numbers("table1")["mean"].items():
        assert np.mean(paper.numbers("table1")["rows"][name]) == pytest.approx(mean, abs=0.06), name


def test_table_3_is_the_papers(printed_rows):
    rows = {}
    for cells in printed_rows:
        if len(cells) == 12 and cells[0] and "/" in cells[1]:
            values = [*cells[1].split("/"), *cells[2:]]
            rows[re.sub(r" _{LARGE}", " large", cells[0])] = as_numbers(values)
    assert rows == paper.numbers("table3")["rows"]


def test_table_1_is_the_papers(printed_rows):
    rows = {}
    for cells in printed_rows:
        if len(cells) == 9 and re.fullmatch(r"[\d.]+", cells[1]):
            rows[cells[0].replace(" _{RF}", " RF").replace("EXLM", "ExLM")] = as_numbers(cells[1:])
    table = paper.numbers("table1")
    ours = {name: [*row, table["mean"].get(name)] for name, row in table["rows"].items()}
    assert {name: rows[name] for name in ours} == ours
