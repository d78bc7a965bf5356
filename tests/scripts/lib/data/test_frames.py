"""Tables in every dress give the same cells, no row is lost, and blank ones are none."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.data import frames
from lib.data.frames import TableFormat, read_table

from tests.support.builders import write_file

HEADER = ["id", "smiles", "note"]
CELL = st.text(st.characters(codec="utf-8", exclude_characters="\0\x1c\x1d\x1e"), max_size=6)
ROWS = st.lists(st.tuples(st.sampled_from(["1", "x"]), CELL, CELL), min_size=1, max_size=5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tables")


def read(folder, name, content, **form) -> dict[int, list[str]]:
    """Line -> cells."""
    frame = read_table(write_file(folder / name, content), TableFormat(**form))
    return dict(zip(frame.index, frame.values.tolist(), strict=True))


@settings(deadline=None, max_examples=50)
@given(ROWS, st.sampled_from(",;\t|"), st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]))
def test_cells_come_back(folder, rows, mark, encoding):
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=mark, lineterminator="\r\n").writerows([HEADER, *rows])
    form = {"encoding": "utf-16"} if encoding == "utf-16" else {}
    found = read(folder, "a.csv.gz", text.getvalue().encode(encoding), **form)
    assert [*found.values()] == [*map(list, rows)]


@pytest.mark.parametrize("rows", [1, 3, 100])
def test_blank_short_and_long_rows(rows, folder, monkeypatch):
    monkeypatch.setattr(frames, "ROWS", rows)
    found = read(folder, "a.csv", "smiles,y,z\nC,1,2\n\n,,\n , ,,,\nCC,1\nCN,1,2,\nCO,1,2,3\nN,4,5\n")
    assert found.pop(8) == ["4 cells, the header has 3: CO, 1, 2, 3"] * 3
    assert found == {2: ["C", "1", "2"], 6: ["CC", "1", ""], 7: ["CN", "1", "2"], 9: ["N", "4", "5"]}


@pytest.mark.parametrize(
    ("name", "content", "rows"),
    [
        ("a.smi", "CCO a b\n\nCN\n", {1: ["CCO", "a b"], 3: ["CN", ""]}),
        ("a.ism", "SMILES id\nCCO x\n", {2: ["CCO", "x"]}),
        ("a.cxsmiles", "CCO |atomProp|\r\n", {1: ["CCO", "|atomProp|"]}),
        ("a.smi", "\nsmiles id\nCCO x\n", {3: ["CCO", "x"]}),
        ("a.csv", "\n , \nsmiles,y\nC,1\n", {4: ["C", "1"]}),
        ("a.csv", f"smiles,y\nC,{'1' * 200_000}\n", {2: ["C", "1" * 200_000]}),
        ("a.tab", "y\tSmiles\n1\tCCO\n", {2: ["1", "CCO"]}),
        ("a.txt", "\ufeffid;smiles\n1,5;CCO\n", {2: ["1,5", "CCO"]}),
    ],
)
def test_files_are_read_by_their_content(name, content, rows, folder):
    assert read(folder, name, content) == rows


def test_a_table_without_a_header_and_one_in_another_encoding(folder, capsys):
    assert read(folder, "a.csv", "1;CCO\n", header=False, column="2") == {1: ["1", "CCO"]}
    content = "smiles;größe\nCCO;µ\n".encode("cp1252")
    assert read(folder, "a.csv", content, encoding="cp1252") == {2: ["CCO", "µ"]}
    assert read(folder, "a.csv", content) == {2: ["CCO", r"\xb5"]}
    assert capsys.readouterr().err.count("(0xf6) stay as escapes") == 1


def test_rows_that_a_quotation_mark_would_swallow_and_a_column_that_is_there_twice(folder):
    with pytest.raises(ValueError, match="a.csv, line 3: "):
        read(folder, "a.csv", 'smiles,y\nC,1\n"CN"x,0\nC,2\n')
    with pytest.raises(ValueError, match="several columns 'smiles'"):
        read(folder, "a.csv", "smiles,y,smiles\nC,1,CC\n")
