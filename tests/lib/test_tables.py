"""Values over seeds as texts."""

import numpy as np
from lib.tables import Value, difference, over_seeds, text
from scipy import stats


def test_mean_and_spread():
    assert over_seeds([]) is None and over_seeds([None]) is None
    assert over_seeds([5.0]).text() == "5.0"
    assert over_seeds([-1e-9]).text(3) == "0.000"
    assert over_seeds([1.0, None, 2.0, 3.0]).text(2) == "2.00 ± 1.00 (n=3)"
    assert over_seeds([1.0, 2.0, 3.0]).interval == (1.0, 3.0)
    assert over_seeds([5.0]).interval == (5.0, 5.0)


def test_missing_seeds_are_told():
    assert Value((80.0,), 3).text() == "80.0 (n=1 of 3)"
    assert Value((80.0, 82.0), 3).text() == "81.0 ± 1.4 (n=2 of 3)"
    assert Value((80.0,), 1).text() == "80.0"


def test_a_median_shows_its_range():
    value = over_seeds([60.0, 70.0, 61.0], median=True)
    assert (value.centre, value.interval, value.text()) == (61.0, (60.0, 70.0), "61.0 (n=3)")


def test_a_difference_of_means_has_its_standard_error():
    rng = np.random.default_rng(0)
    ours, theirs = rng.normal(0, 1, 4), rng.normal(5, 2, 3)
    error = np.hypot(*(v.std(ddof=1) / len(v) ** 0.5 for v in (ours, theirs)))
    significant = stats.ttest_ind(ours, theirs, equal_var=False).pvalue < 0.05
    expected = f"{ours.mean() - theirs.mean():+.2f} ± {error:.2f}" + "*" * int(significant)
    assert difference(Value(tuple(ours)), Value(tuple(theirs)), 2) == expected
    one = Value((2.0,))
    assert difference(one, one, 1) == "+0.0" and difference(one, None) == ""


def test_cells():
    assert text(80.95) == "81.0" and text(1.62, 2) == "1.62" and text(None) == text(float("nan")) == ""
    assert text(over_seeds([1.0, 2.0])) == "1.5 ± 0.7" and text(over_seeds([1.0, 2.0]), 1, True).endswith(
        "(n=2)"
    )
