"""Tables in every dress give the same cells, and no row is lost."""

import csv
import io
import re

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.command_line import UserError
from lib.data.tables import SMILES_OPTION, TableFormat, column_of, separator_of, table_rows
from pyarrow import parquet

from tests.support.builders import write_file

HEADER = ["id", "smiles", "note"]
CELL = st.text(st.characters(codec="utf-8"), max_size=6)
ROWS = st.lists(st.tuples(st.sampled_from(["1", "x"]), CELL, CELL), max_size=5)
FORM = TableFormat()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@settings(deadline=None, max_examples=50)
@given(ROWS, st.sampled_from(",;\t|"), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_cells_come_back(folder, rows, mark, encoding):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=mark, lineterminator="\r\n").writerows([HEADER, *rows])
    path = write_file(folder / "a.csv.gz", text.getvalue().encode(encoding))
    found = list(table_rows(path, TableFormat(encoding="utf-16" if encoding == "utf-16" else None)))
    assert [cells for _, cells in found] == [HEADER, *map(list, rows)]
    ends = [len(re.findall("\r\n|\r|\n", "".join(cells))) for cells in rows]  # line ends within cells
    assert [line for line, _ in found] == [1, *(2 + i + sum(ends[:i]) for i in range(len(rows)))]


def test_bytes_that_are_not_utf8_are_kept_or_read_by_their_encoding(tmp_path):
    path = write_file(tmp_path / "a.csv", "smiles;größe\nCCO;µ\n".encode("cp1252"))
    (_, header), (_, row) = table_rows(path, FORM)
    assert row == ["CCO", "\udcb5"]
    with pytest.raises(UserError, match="not UTF-8: give --encoding.*--label-columns"):
        column_of(header, "größe", path, "--label-columns")
    named = TableFormat(encoding="cp1252")
    assert [cells for _, cells in table_rows(path, named)] == [["smiles", "größe"], ["CCO", "µ"]]


def test_parquet_gives_the_cells_of_csv(tmp_path):
    columns = {"smiles": ["CCO", "C"], "y": [1.5, None], "ring": [True, False], "n": [1, 2]}
    table = pyarrow.table(columns | {"vector": [[1.0], [2.0]]})  # lists are no cells
    parquet.write_table(table, path := tmp_path / "a.parquet", row_group_size=1)
    assert list(table_rows(path, FORM)) == [
        (1, list(columns)),
        (2, ["CCO", "1.5", "True", "1"]),
        (3, ["C", "", "False", "2"]),
    ]
    parquet.write_table(pyarrow.table({"smiles": [b"CCO", None]}), path)
    assert [row for _, row in table_rows(path, FORM)] == [["smiles"], ["CCO"], [""]]


def test_a_quotation_mark_swallows_no_rows(tmp_path):
    for row in (b'"CCO"x,1', b'"CCO,1'):
        path = write_file(tmp_path / "a.csv", b'smiles,label\nCO,1\n"CN",0\n' + row + b"\nCCC,0\n")
        with pytest.raises(ValueError, match="a.csv: "):
            list(table_rows(path, FORM))


def test_separators_and_columns(tmp_path):
    for line, mark in (("smiles;a, b, c", ";"), ("x\ty", "\t"), ("CCO", ",")):
        assert separator_of(line, "smiles") == mark
    excel = write_file(tmp_path / "a.csv", "sep=;\r\nid;N\r\n1,5;CC\r\n")
    assert list(table_rows(excel, TableFormat("N"))) == [(2, ["id", "N"]), (3, ["1,5", "CC"])]
    assert column_of(["id", "N"], "N", tmp_path, SMILES_OPTION) == 1  # no molecule, although it could be
    assert column_of(["SMILES", "A", "a"], "smiles", tmp_path, "") == 0
    assert column_of(["SMILES", "A", "a"], "a", tmp_path, "") == 2
    with pytest.raises(UserError, match="2 columns 'a': its columns are 'a', 'b', 'a'; choose with --column"):
        column_of(["a", "b", "a"], "a", tmp_path, "--column")
