"""Which rows were evaluated, and what is written of them."""

import numpy as np
from lib.run.predictions import Split, write_predictions

from fs_plugins.data.property_info import PropertyInfo


def test_rows_differ_by_line_and_label():
    labels = np.array([[0.0], [np.nan]], np.float32)
    one = Split(["2", "3"], ["C", "CC"], labels).sha256
    assert one == Split(["2", "3"], ["[CH4]", "CC"], labels.copy()).sha256
    assert one != Split(["2", "4"], ["C", "CC"], labels).sha256
    assert one != Split(["2", "3"], ["C", "CC"], np.nan_to_num(labels)).sha256


def test_a_property_may_be_named_as_a_column_is(tmp_path):
    split = Split(["2", "3"], ["C", "CC"], np.array([[0.0], [np.nan]], np.float32))
    info = PropertyInfo("classification", ("line",), (0.0,), (1.0,))
    write_predictions(tmp_path / "a.csv", split, np.array([[0.25], [1.0]]), info)
    assert (tmp_path / "a.csv").read_text() == "line,smiles,line,line (label)\n2,C,0.25,0\n3,CC,1,\n"
