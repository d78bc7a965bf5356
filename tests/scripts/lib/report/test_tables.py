"""Values over seeds as texts."""

from lib.report.tables import over_seeds, text


def test_values_over_seeds():
    """Their texts are also in the tables of test_study.py and test_finetunings.py."""
    assert over_seeds([]) is None and over_seeds([None]) is None
    assert over_seeds([-1e-9]).text(3) == "0.000"
    assert over_seeds([1.0, None, 2.0, 3.0]).text(2) == "2.00 ± 1.00 (n=3)"
    assert text(over_seeds([1.0, 2.0])) == "1.5 ± 0.7" and text(None) == text(float("nan")) == ""
