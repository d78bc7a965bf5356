"""Molecules of every format as records."""

import pytest
from lib.data.molecules import header_of, records_in
from lib.data.tables import TableFormat

from tests.support.builders import write_file

FORM = TableFormat()


def test_rows_with_cells_missing_or_too_many(tmp_path):
    rows = ["x,C,CCO", "x, y,C,CCO", "x", "x,C,CCN,", ""]
    path = write_file(tmp_path / "a.csv", "\n".join(["name,formula,smiles", *rows]) + "\n")
    records = list(records_in(path, FORM))
    assert [r.content.decode() for r in records] == ["CCO", "x, y,C,CCO", "x", "CCN", ""]
    assert [bool(r.fault) for r in records] == [False, True, True, False, False]
    assert [list(r.cells) for r in records] == [row.split(",") if row else [] for row in rows]
    path = write_file(tmp_path / "b.csv", "smiles,name\nCCO,x, y\n")
    assert next(records_in(path, FORM)).fault == ""  # nothing before it that could move it


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("ending", ["", ".gz"])
def test_lines(ending, encoding, tmp_path):
    text = "CCO my name\r\n\r\nC\u00fc\r\n".encode(encoding)
    form = TableFormat(encoding=None if encoding == "utf-8-sig" else encoding)
    for kind, first in (
        (".txt", ["CCO my name"]),
        (".smi", ["CCO", "my name"]),
        (".smiles", ["CCO", "my name"]),
    ):
        path = write_file(tmp_path / f"a{kind}{ending}", text)
        records = list(records_in(path, form))
        assert [r.place for r in records] == ["1", "2", "3"] and list(records[0].cells) == first
        assert [r.content.decode() for r in records] == [first[0], "", "C\u00fc"]
        assert len(header_of(path, form)) == len(first)


def test_headers_of_files_of_lines(tmp_path):
    smi = write_file(tmp_path / "a.smi", "smiles zinc_id\nCCO Z1\n")
    table = write_file(tmp_path / "a.txt", "chembl_id\tmol\tkey\nCHEMBL1\tCCO\tA B\n")  # as ChEMBL's chemreps
    column = write_file(tmp_path / "b.txt", "smiles\nCCO\n")
    for path, form in ((smi, FORM), (table, TableFormat("mol")), (column, FORM)):
        assert [(r.place, r.content, r.fault) for r in records_in(path, form)] == [("2", b"CCO", "")]
    assert header_of(table, TableFormat("mol")) == ["chembl_id", "mol", "key"]
