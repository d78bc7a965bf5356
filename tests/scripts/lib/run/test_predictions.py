"""Which rows were evaluated."""

import numpy as np
from lib.run.predictions import Split


def test_rows_differ_by_line_and_label():
    labels = np.array([[0.0], [np.nan]], np.float32)
    one = Split(["2", "3"], ["C", "CC"], labels).sha256
    assert one == Split(["2", "3"], ["[CH4]", "CC"], labels.copy()).sha256
    assert one != Split(["2", "4"], ["C", "CC"], labels).sha256
    assert one != Split(["2", "3"], ["C", "CC"], np.nan_to_num(labels)).sha256
