"""The table of runs, and what each figure and table needs of it."""

from lib.report.study import PAPER
from lib.workflow.runs import targets

KNOWN = targets()


def test_runs_are_those_of_figure_4_and_table_4():
    """The cells of figure 4, whose numbers test_paper.py compares with p^k."""
    cells = PAPER.index[PAPER["corrupted"].notna()].tolist()
    for name in ("figure3", "figure4", "figure5", "figure8", "figure9"):
        runs = KNOWN[name].runs
        assert [f"repeated-mlm-k{run.k}-p{run.p:g}" for run in runs] == [run.name for run in runs] == cells
        assert {run.model for run in runs} == {"repeated-mlm"} and len(runs) == 14
    for name, ratios in (("table4", (0.15, 0.387)), ("figure12", (0.15, 0.387, 0.622, 0.789))):
        expected = {("repeated-mlm" if k == 1 else "exlm", k, p) for k in (1, 2, 4, 8) for p in ratios}
        found = [(run.model, run.k, run.p) for run in KNOWN[name].runs]
        assert set(found) == expected and len(found) == len(expected)
