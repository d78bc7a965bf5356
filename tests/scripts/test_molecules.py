"""Molecules in, rows out: no row is lost, and what is written is named."""

import argparse

import molecules
import pytest
from lib.command_line import UserError

from tests.builders import write_file


def test_every_row_has_its_place(tmp_path):
    rows = ["x,C,CCO", "x, y,C,CCO", "", "C", "x,C,CCN,", "x,\u00e9,CCC"]
    content = "\n".join(["name,formula,smiles", *rows]).encode("latin-1")  # the molecules are ASCII
    found = list(molecules.smiles_of(write_file(tmp_path / "a.csv.gz", content), "smiles"))
    assert found == ["CCO", "x, y,C,CCO", "", "", "CCN", "CCC"]
    found = list(molecules.smiles_of(write_file(tmp_path / "a.smi", b"CCO name\n\nC\xff\n"), "smiles"))
    assert found == ["CCO", "", "C\\xff"]


def test_where_results_go(tmp_path):
    def output(given=None, name="set.csv.gz"):
        args = argparse.Namespace(what="embed", output=given, molecules=tmp_path / name)
        return molecules.output_of(args)

    assert output() == tmp_path / "set.npy" and output(name="my.set.smi") == tmp_path / "my.set.npy"
    assert output(tmp_path / "new" / "a.npy").parent.is_dir()
    with pytest.raises(UserError, match="is the file of the molecules: choose another"):
        output(tmp_path / "set.npy", "set.npy")


def test_results_are_counted(tmp_path):
    def summary(*found):
        output = tmp_path / "a.csv"
        return molecules.summary(molecules.predict(output, zip("ABC", found, strict=True), ["p"]), output)

    assert summary(([1.0], ""), (None, "not a SMILES"), ([2.0], "unknown tokens")).endswith(
        "3 molecules, 1 of them could not be read (empty rows, with the reason)"
    )
    with pytest.raises(UserError, match="none of 3 molecules could be read: see the remarks in"):
        summary(*[(None, "not a SMILES")] * 3)
