"""Molecules in, rows out: no row and no column is lost, and nothing is overwritten unasked."""

import argparse
import csv

import molecules
import pytest
from lib.command_line import UserError
from lib.data.molecules import header_of, records_in
from lib.data.tables import TableFormat

from tests.support.builders import write_file

FORM = TableFormat()


def predicted(path, output, *found, names=("p", "y")):
    rows = zip(records_in(path, FORM), found, strict=True)
    counts = molecules.predict(output, header_of(path, FORM), rows, names)
    return counts, list(csv.reader(output.read_text("latin-1").splitlines()))


def test_predictions_stand_beside_the_whole_row(tmp_path):
    rows = ["x,C,CCO", "x, y,C,CCO", "", "C", "x,C,CCN,", "x,\u00e9,CCC"]
    content = "\n".join(["y,formula,smiles", *rows]).encode("latin-1")
    path, good = write_file(tmp_path / "a.csv.gz", content), ([1.0, 2.5], "")
    found = [good, (None, "empty SMILES"), (None, "empty SMILES"), (None, ""), good, ([0.5, 0.25], "unknown")]
    counts, table = predicted(path, tmp_path / "out.csv", *found)
    assert counts == {True: 3, False: 3}
    assert table == [
        ["y", "formula", "smiles", "p", "y (predicted)", "remark"],
        ["x", "C", "CCO", "1", "2.5", ""],
        ["x", " y", "C", "", "", "wrong number of cells: 4, but the header has 3"],
        ["", "", "", "", "", "empty SMILES"],
        ["C", "", "", "", "", "wrong number of cells: 1, but the header has 3"],
        ["x", "C", "CCN", "1", "2.5", ""],
        ["x", "\u00e9", "CCC", "0.5", "0.25", "unknown"],  # the bytes of the input
    ]
    path = write_file(tmp_path / "a.smi", b"CCO my name\nC(\n")
    _, table = predicted(path, tmp_path / "out.csv", good, (None, "not a SMILES"))
    assert table[1:] == [["CCO", "my name", "1", "2.5", ""], ["C(", "", "", "", "not a SMILES"]]
    assert table[0] == ["smiles", "name", "p", "y", "remark"]
    with pytest.raises(UserError, match="none of 2 molecules could be read: see the remarks in"):
        molecules.summary({True: 0, False: 2}, tmp_path / "a.csv")


def test_where_results_go(tmp_path):
    def output(given=None, name="set.csv.gz", overwrite=False):
        args = argparse.Namespace(what="embed", output=given, molecules=tmp_path / name, overwrite=overwrite)
        return molecules.output_of(args)

    assert output() == tmp_path / "set.npy" and output(name="my.set.smi") == tmp_path / "my.set.npy"
    assert output(tmp_path / "new" / "a.npy").parent.is_dir()
    with pytest.raises(UserError, match="is the file of the molecules: choose another"):
        output(tmp_path / "set.npy", "set.npy")
    (tmp_path / "set.npy").touch()
    with pytest.raises(UserError, match="set.npy exists already: .* give --overwrite"):
        output()
    assert output(overwrite=True) == tmp_path / "set.npy"
