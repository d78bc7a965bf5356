"""The table of runs, what each figure and table needs of it, and what is refused."""

import pytest
from lib.command_line import UserError
from lib.report.study import PAPER
from lib.workflow.runs import Run, read_runs, targets

KNOWN = targets()
HEAD = "name,targets,label,model,k,p,times,flags,rates,size\n"


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


def test_a_table_of_ones_own(tmp_path):
    """In a comparison of its own, with quoted cells, defaults, flags and rates."""
    path = tmp_path / "mine.csv"
    row = 'a,mine,"A, k = 2",exlm,2,0.3,1.5,--max-transition-length 5,1e-3 2e-3,base\n'
    path.write_text(f"{HEAD}{row}b,mine,,mlm,1,0.3,,,\n")
    both = targets(path)
    a, b = both["mine"].runs
    flags, rates = ("--max-transition-length", "5"), (1e-3, 2e-3)
    assert a == Run("a", ("mine",), "A, k = 2", "exlm", 2, 0.3, 1.5, flags, rates, "base")
    assert (b.label, b.times, b.flags, b.rates) == ("b", 1.0, (), ())
    assert "joint" in both["mine"].measures and not both["mine"].of_the_paper
    assert {name: one for name, one in both.items() if name != "mine"} == KNOWN
    path.write_text("name, model,k,p,targets\n mlm-p38,mlm, 1,0.15,mine\n")
    with pytest.raises(UserError, match="mlm-p38"):
        targets.__wrapped__(path)


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("name,targets,model,k,p,prob\n", "second column 'prob'"),
        (f"{HEAD}a,,,exlm,2,0.15,,,\n", "line 2: a: .* targets"),
        (f"{HEAD}a,mine ../../b,,exlm,2,0.15,,,\n", "line 2: a: .* targets"),
        (f"{HEAD}a,t,,exlm,2,0.15,,--seed 7 --p=0.5,\n", "line 2: flags --p, --seed: .* columns"),
        (HEAD + "a,t,,exlm,2,0.15,,,\n" * 2, "named a"),
        (f"{HEAD}a,t,L,exlm,2,0.15,,,\nb,t,L,exlm,4,0.15,,,\n", "a and b have the label 'L'"),
    ],
)
def test_tables_that_are_none(tmp_path, table, named):
    (tmp_path / "runs.csv").write_text(table)
    with pytest.raises(ValueError, match=named):
        read_runs(tmp_path / "runs.csv")
