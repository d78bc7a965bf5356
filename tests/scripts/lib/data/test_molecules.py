"""Molecules of every format as records (rows with cells missing or too many: scripts/test_molecules.py)."""

import pytest
from lib.command_line import UserError
from lib.data.molecules import header_of, records_in
from lib.data.tables import TableFormat

from tests.support.builders import write_file

FORM = TableFormat()


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("suffix", [".txt", ".smi.gz", ".smiles"])
def test_lines(suffix, encoding, tmp_path):
    path = write_file(tmp_path / f"a{suffix}", "CCO my name\r\n\r\nC\u00fc\r\n".encode(encoding))
    form = TableFormat(encoding=None if encoding == "utf-8-sig" else encoding)
    first = ["CCO my name"] if suffix == ".txt" else ["CCO", "my name"]
    records = list(records_in(path, form))
    assert [r.line for r in records] == ["1", "2", "3"] and list(records[0].cells) == first
    assert [r.content.decode() for r in records] == [first[0], "", "C\u00fc"]
    assert len(header_of(path, form)) == len(first)


def test_headers_of_files_of_lines(tmp_path):
    smi = write_file(tmp_path / "a.smi", "smiles zinc_id\nCCO Z1\n")
    table = write_file(tmp_path / "a.txt", "chembl_id\tmol\tkey\nCHEMBL1\tCCO\tA B\n")  # as ChEMBL's chemreps
    column = write_file(tmp_path / "b.txt", "smiles\nCCO\n")
    for path, form in ((smi, FORM), (table, TableFormat("mol")), (column, FORM)):
        assert [(r.line, r.content, r.fault) for r in records_in(path, form)] == [("2", b"CCO", "")]
    assert header_of(table, TableFormat("mol")) == ["chembl_id", "mol", "key"]
    for suffix in (".smi", ".txt"):  # of old Macs
        path = write_file(tmp_path / f"mac{suffix}", "CCO\rCCN\rC\r")
        assert [r.content for r in records_in(path, FORM)] == [b"CCO", b"CCN", b"C"]
    with pytest.raises(UserError, match="save a spreadsheet as .csv"):
        header_of(tmp_path / "a.xlsx", FORM)
    path = write_file(tmp_path / "d.smi", "#SMILES ID\nCCO\u00a0x\n\u00a0CC\n")
    assert [(r.content, r.cells) for r in records_in(path, FORM)] == [
        (b"CCO", ["CCO", "x"]),
        (b"CC", ["CC", ""]),
    ]
    path = write_file(tmp_path / "c.csv", "smiles,name\nCCO,x, y\n")
    assert next(records_in(path, FORM)).fault == ""  # nothing before it that could move it
