"""Files are written completely or not at all; what is wrong with one is named."""

import pytest
from lib import files
from lib.command_line import UserError
from lib.files import read_json, sha256, tsv_line, write_json

from tests.support.builders import write_file


def test_a_file_that_cannot_be_written(tmp_path):
    with pytest.raises(OSError, match="cannot write .*none/file .No such file or directory"):
        write_json(tmp_path / "none" / "file", {})


def test_json(tmp_path):
    path = tmp_path / "a.json"
    assert read_json(path) is None
    write_json(path, {"a": [1, None]})
    assert read_json(path) == {"a": [1, None]}
    path.write_text("{")
    with pytest.raises(UserError, match="a.json is damaged .*: remove it, or choose another folder"):
        read_json(path)


def test_sha256_is_of_all_content_in_order(tmp_path):
    one, two, both = (write_file(tmp_path / name, name) for name in ("a", "b", "ab"))
    assert sha256(one, two) == sha256(both) != sha256(two, one)


def test_cells():
    assert (
        tsv_line(1, "a\tb\n", "", "=1+1", "@x", " -2", "\udcff=C") == "1\ta b\t\t'=1+1\t'@x\t'-2\t\\udcff=C"
    )


def test_sha256_of_a_large_file_is_of_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "BLOCK", 4)
    path, digests = tmp_path / "file", set()
    for content in (
        b"a" * 100,
        b"b" + b"a" * 99,
        b"a" * 50 + b"b" + b"a" * 49,
        b"a" * 96 + b"bbbb",
        b"a" * 99,
    ):
        path.write_bytes(content)
        digests.add(sha256(path, most=40))
        assert sha256(path, most=100) == sha256(path)
    assert len(digests) == 4  # a byte between two blocks is not seen
