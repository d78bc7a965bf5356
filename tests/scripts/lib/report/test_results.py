"""Values over seeds as texts."""

from lib.report.results import cell


def test_values_over_seeds():
    assert cell([]) == cell([None]) == cell([float("nan")]) == ""
    assert cell([-1e-9], 3) == "0.000"
    assert cell([1.0, None, 2.0, 3.0], 2) == "2.00 ± 1.00 (n=3)"
    assert cell([1.0, 2.0], expected=3, median=True) == "1.5 (n=2 of 3)"
    assert cell([1.0, 2.0], count=False) == "1.5 ± 0.7"
