"""Values over seeds as texts."""

import numpy as np
from lib.report.tables import Value, difference, over_seeds, text


def test_values_over_seeds():
    """Their texts are also in the tables of test_study.py and test_finetunings.py."""
    assert over_seeds([]) is None and over_seeds([None]) is None
    assert over_seeds([-1e-9]).text(3) == "0.000"
    assert over_seeds([1.0, None, 2.0, 3.0]).text(2) == "2.00 ± 1.00 (n=3)"
    assert text(over_seeds([1.0, 2.0])) == "1.5 ± 0.7" and text(None) == text(float("nan")) == ""


def test_a_difference_of_means_has_its_standard_error_and_a_mark_by_welchs_test():
    """With unequal variances, where a test by their pooled one says the opposite."""
    few, many = np.array([-1.0, 0.0, 1.0]), np.tile([-1.0, 1.0], 5)
    # error, Welch's t and degrees of freedom: 1.155, 2.6, 2.0 (p = 0.12); pooled: p < 0.001
    assert difference(Value(tuple(2 + 2 * few)), Value(tuple(5 + 0.1 * many)), 2) == "-3.00 ± 1.16"
    # 0.67, 3.0, 9.1 (p = 0.015); pooled: p = 0.14
    assert difference(Value(tuple(0.1 * few)), Value(tuple(2 + 2 * many)), 2) == "-2.00 ± 0.67*"
    one = Value((2.0,))
    assert difference(one, one, 1) == "+0.0" and difference(one, None) == ""
