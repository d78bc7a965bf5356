"""Values over seeds as texts."""

import numpy as np
from lib.report.tables import Value, difference, over_seeds, text


def test_mean_and_spread():
    assert over_seeds([]) is None and over_seeds([None]) is None
    assert over_seeds([5.0]).text() == "5.0"
    assert over_seeds([-1e-9]).text(3) == "0.000"
    assert over_seeds([1.0, None, 2.0, 3.0]).text(2) == "2.00 ± 1.00 (n=3)"
    assert over_seeds([1.0, 2.0, 3.0]).interval == (1.0, 3.0)
    assert over_seeds([5.0]).interval == (5.0, 5.0)
    assert Value((80.0,), 3).text() == "80.0 (n=1 of 3)"  # missing seeds are told
    assert Value((80.0, 82.0), 3).text() == "81.0 ± 1.4 (n=2 of 3)"
    assert Value((80.0,), 1).text() == "80.0"
    median = over_seeds([60.0, 70.0, 61.0], median=True)
    assert (median.centre, median.text()) == (61.0, "61.0 (n=3)")
    assert text(80.95) == "81.0" and text(1.62, 2) == "1.62" and text(None) == text(float("nan")) == ""
    two = over_seeds([1.0, 2.0])
    assert text(two) == "1.5 ± 0.7" and text(two, 1, True).endswith("(n=2)")


def test_a_difference_of_means_has_its_standard_error_and_a_mark_by_welchs_test():
    """With unequal variances, where a test by their pooled one says the opposite."""
    few, many = np.array([-1.0, 0.0, 1.0]), np.tile([-1.0, 1.0], 5)
    # error, Welch's t and degrees of freedom: 1.155, 2.6, 2.0 (p = 0.12); pooled: p < 0.001
    assert difference(Value(tuple(2 + 2 * few)), Value(tuple(5 + 0.1 * many)), 2) == "-3.00 ± 1.16"
    # 0.67, 3.0, 9.1 (p = 0.015); pooled: p = 0.14
    assert difference(Value(tuple(0.1 * few)), Value(tuple(2 + 2 * many)), 2) == "-2.00 ± 0.67*"
    one = Value((2.0,))
    assert difference(one, one, 1) == "+0.0" and difference(one, None) == ""
