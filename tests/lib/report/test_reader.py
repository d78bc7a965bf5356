"""Results that cannot be read are told and do not stop a report; records become its provenance."""

import pytest
from lib.tables import Table

from tests.lib.report.conftest import MADE_OF, blocks_of, made_of, rows_of, write


def test_what_is_not_there_is_no_problem(tmp_path, reader):
    assert reader.read(tmp_path / "none.json") is None
    assert reader.problems == [] and reader.damaged == set()


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b'{"score": 1', "Expecting"),
        (b"\xff\xfe", "decode"),
        (b"[1, 2]", "list indices"),
        (b'{"other": 1}', "it has no 'score'"),
        (b'{"score": "high"}', "could not convert"),
        (b'{"score": null}', "NoneType"),
    ],
)
def test_damaged_results_are_told_once(tmp_path, reader, content, told):
    path = tmp_path / "result.json"
    path.write_bytes(content)
    for _ in range(2):
        assert reader.read(path, lambda found: float(found["score"])) is None
    [problem] = reader.problems
    assert str(path) in problem and "damaged" in problem and told in problem
    assert reader.damaged == {path}


def test_provenance(tmp_path, reader):
    assert reader.provenance() is None
    made_of(tmp_path / "a", "bash", "train.sh", "a b")
    write(tmp_path / "b/manifest.json", {**MADE_OF, "settings": {}, "command": ["run"], "commit": "beef"})
    write(tmp_path / "c/manifest.json", {"settings": {}, "command": "run"})
    for name in ("none", "c", "a", "b"):
        reader.record(tmp_path / name)
    section = reader.provenance()
    [table], [code] = blocks_of(section, Table), blocks_of(section, str)
    assert rows_of(table) == {
        "runs": ["2"],
        "commit": ["beef, c0ffee"],
        "python": ["3.12.1"],
        "torch": ["2.13.0"],
    }
    assert f"# {tmp_path / 'a'}\nbash train.sh 'a b'" in code
    assert "c/manifest.json" in reader.problems[0] and len(reader.problems) == 1
