"""Molecules of every format as records, in bounded blocks."""

import pytest
from lib.command_line import UserError
from lib.corpora.molecules import column_of, csv_rows, records_in
from lib.preparing import opened

from tests.builders import write_file

CSV = b'id,name,smiles\r\n1,"a,\n""b",CCO\r\n\r\n2,c,C\xff\n'


def rows_of(path, errors="strict"):
    with opened(path) as file:
        return list(csv_rows(path, file, errors))


def test_rows_of_csv_have_the_number_of_their_first_line(tmp_path):
    path = write_file(tmp_path / "a.csv.gz", b"\xef\xbb\xbf" + CSV)
    found = rows_of(path, "surrogateescape")
    assert found == [
        (1, ["id", "name", "smiles"]),
        (2, ["1", 'a,\n"b', "CCO"]),
        (4, []),
        (5, ["2", "c", "C\udcff"]),
    ]
    with pytest.raises(UserError, match="a.csv.gz is not UTF-8 .byte 0xff.: convert it to UTF-8"):
        rows_of(path)


@pytest.mark.parametrize(
    ("row", "what"), [(b'"CCO"x,1', "expected after"), (b'"CCO,1', "unexpected end of data")]
)
def test_wrong_quotes_are_named_with_their_line(row, what, tmp_path):
    path = write_file(tmp_path / "a.csv", b'smiles,label\nCO,1\n"CN",0\n' + row + b"\nCCC,0\n")
    with pytest.raises(UserError, match=rf"a.csv, line 4: .*{what}.*: is a quotation mark missing"):
        rows_of(path)


def test_columns(tmp_path):
    path = tmp_path / "a.csv"
    with pytest.raises(UserError, match="has no column 'c': its columns are a, b; choose with --column.$"):
        column_of(["a", "b"], "c", path, "--column")
    with pytest.raises(UserError, match="has 2 columns 'a': its columns are a, a; choose"):
        column_of(["a", "a"], "a", path, "--column")
    with pytest.raises(UserError, match=r"separated by '\\t': convert it to commas"):
        column_of(["a\tb"], "a", path, "--column")


def test_rows_with_cells_missing_or_too_many(tmp_path):
    rows = ["x,C,CCO", "x, y,C,CCO", "x", "x,C,CCN,"]
    path = write_file(tmp_path / "a.csv", "\n".join(["name,formula,smiles", *rows]))
    records = list(records_in(path, "smiles"))
    assert [r.content.decode() for r in records] == ["CCO", "x, y,C,CCO", "x", "CCN"]
    faults = ["", "wrong number of cells: 4, but the header has 3", "wrong number of cells: 1, but", ""]
    for record, fault in zip(records, faults, strict=True):
        assert record.fault.startswith(fault) and bool(record.fault) == bool(fault)
    path = write_file(tmp_path / "b.csv", "smiles,name\nCCO,x, y\n")
    assert next(records_in(path, "smiles")).fault == ""  # nothing before it that could move it


@pytest.mark.parametrize("ending", ["", ".gz"])
def test_lines(ending, tmp_path):
    text = b"\xef\xbb\xbfCCO name\r\n\nC\xff\n"
    for kind, first in ((".txt", b"CCO name"), (".smi", b"CCO"), (".smiles", b"CCO")):
        path = write_file(tmp_path / f"a{kind}{ending}", text)
        assert [tuple(r) for r in records_in(path, "smiles")] == [
            ("1", first, ""),
            ("2", b"", ""),
            ("3", b"C\xff", ""),
        ]
