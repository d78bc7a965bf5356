"""Tables in every dress give the same cells; of anything else the fault is named."""

import csv
import io
import re

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.command_line import UserError
from lib.data.tables import TableFormat, column_of, separator_of, table_rows
from pyarrow import parquet

from tests.support.builders import write_file

HEADER = ["id", "smiles", "note"]
CELL = st.text(st.characters(codec="utf-8"), max_size=6)
ROWS = st.lists(st.tuples(st.sampled_from(["1", "x"]), CELL, CELL), max_size=5)
FORM = TableFormat()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


@settings(deadline=None)
@given(ROWS, st.sampled_from(",;\t|"), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_cells_come_back(folder, rows, mark, encoding):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=mark, lineterminator="\r\n").writerows([HEADER, *rows])
    path = write_file(folder / "a.csv.gz", text.getvalue().encode(encoding))
    found = list(table_rows(path, FORM))
    assert [cells for _, cells in found] == [HEADER, *map(list, rows)]
    ends = [len(re.findall("\r\n|\r|\n", "".join(cells))) for cells in rows]  # line ends within cells
    assert [line for line, _ in found] == [1, *(2 + i + sum(ends[:i]) for i in range(len(rows)))]


def test_bytes_that_are_not_utf8_are_kept_or_read_by_their_encoding(tmp_path):
    path = write_file(tmp_path / "a.csv", "smiles;größe\nCCO;µ\n".encode("cp1252"))
    assert [cells for _, cells in table_rows(path, FORM)][1] == ["CCO", "\udcb5"]
    named = TableFormat(encoding="cp1252")
    assert [cells for _, cells in table_rows(path, named)] == [["smiles", "größe"], ["CCO", "µ"]]
    with pytest.raises(UserError, match="choose with --encoding"):
        list(table_rows(path, TableFormat(encoding="utf-8")))


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tables_of_excel(tmp_path, end):
    header = [f"Mol{end}ID", "smiles", "y"]
    text = f'"Mol{end}ID";smiles;y{end}1;CCO;"{"2" * 200_000}"{end}'
    for mark in ("", "\ufeff"):
        for form in (FORM, TableFormat(encoding="utf-8")):
            path = write_file(tmp_path / "a.csv", mark + text)
            assert [*table_rows(path, form)] == [(1, header), (3, ["1", "CCO", "2" * 200_000])]
            path = write_file(tmp_path / "b.csv", f"{mark}sep=;{end}{text}")
            assert [line for line, _ in table_rows(path, form)] == [2, 4]
    for content in ("", "sep=;\n"):
        with pytest.raises(UserError, match="is empty"):
            list(table_rows(write_file(path, content), FORM))


def test_parquet_gives_the_cells_of_csv(tmp_path):
    columns = {"smiles": ["CCO", "C"], "y": [1.5, None], "ring": [True, False], "n": [1, 2]}
    table = pyarrow.table(columns | {"vector": [[1.0], [2.0]]})  # lists are no cells
    parquet.write_table(table, path := tmp_path / "a.parquet", row_group_size=1)
    assert list(table_rows(path, FORM)) == [
        (1, list(columns)),
        (2, ["CCO", "1.5", "True", "1"]),
        (3, ["C", "", "False", "2"]),
    ]
    beyond = pyarrow.array([2**62] * 2, pyarrow.timestamp("us"))  # what Python's dates hold
    odd = pyarrow.table({"smiles": [b"CCO", b"C\xb5"], "t": beyond, "note": ["a", "b"]})
    odd = odd.append_column("note", [["c", "d"]])
    parquet.write_table(odd, path)
    assert [row for _, row in table_rows(path, FORM, ["SMILES"])] == [["smiles"], ["CCO"], ["C\udcb5"]]
    assert [row for _, row in table_rows(path, FORM, ["t", "x"])][1:] == [[str(2**62)]] * 2
    with pytest.raises(UserError, match="'note' more than once"):
        list(table_rows(path, FORM))
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UserError, match="a.parquet is not a Parquet file, or damaged"):
        list(table_rows(path, FORM))


@settings(deadline=None)
@given(
    st.one_of(st.binary(max_size=60), st.builds(b"smiles,a\n".__add__, st.binary(max_size=60))),
    st.sampled_from(["a.csv", "a.csv.gz", "a.parquet"]),
    st.sampled_from([None, "utf-16", "cp1252", "utf-8"]),
)
def test_no_bytes_end_in_a_traceback(folder, content, name, encoding):
    path = folder / name
    path.write_bytes(content)
    try:
        rows = list(table_rows(path, TableFormat(encoding=encoding)))
    except UserError as error:
        assert name in str(error)
    else:
        assert rows[0][0] in (1, 2)


def test_what_is_refused(tmp_path):
    for row in (b'"CCO"x,1', b'"CCO,1'):  # wrong quotes
        path = write_file(tmp_path / "a.csv", b'smiles,label\nCO,1\n"CN",0\n' + row + b"\nCCC,0\n")
        with pytest.raises(UserError, match="a.csv, line 4"):
            list(table_rows(path, FORM))
    for name in ("c", "a"):  # is not there once
        with pytest.raises(UserError, match=f"'{name}'.*'a', 'b', 'a'; choose with --column"):
            column_of(["a", "b", "a"], name, tmp_path / "a.csv", "--column")
    for line in ("N" * 200_000, "CC\rCN,C", '"CC'):  # no header
        assert separator_of(line, "smiles") == ","
