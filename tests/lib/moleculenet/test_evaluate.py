"""Which rows were evaluated."""

import numpy as np
from lib.moleculenet.results import rows_sha256


def test_rows_differ_by_line_and_label():
    labels = np.array([[0.0], [np.nan]], np.float32)
    one = rows_sha256([["2", "C"], ["3", "CC"]], labels)
    assert one == rows_sha256([["2", "[CH4]"], ["3", "CC"]], labels.copy())
    assert one != rows_sha256([["2", "C"], ["4", "CC"]], labels)
    assert one != rows_sha256([["2", "C"], ["3", "CC"]], np.nan_to_num(labels))
