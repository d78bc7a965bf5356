"""Files; output folders of one kind of settings."""

import pytest
from lib import files
from lib.command_line import UserError
from lib.files import MANIFEST, read_json, sha256, tsv_line

from tests.support.builders import write_file


def test_sha256(tmp_path, monkeypatch):
    one, two, both = (write_file(tmp_path / name, name) for name in ("a", "b", "ab"))
    assert sha256(one, two) == sha256(both) != sha256(two, one)
    monkeypatch.setattr(files, "BLOCK", 4)
    contents = b"a" * 100, b"b" + b"a" * 99, b"a" * 50 + b"b" + b"a" * 49, b"a" * 96 + b"bbbb", b"a" * 99
    digests = set()
    for content in contents:
        path = write_file(tmp_path / "file", content)
        digests.add(sha256(path, most=40))
        assert sha256(path, most=100) == sha256(path)
    assert len(digests) == 4  # a byte between two blocks is not seen


def test_cells():
    found = tsv_line(1, "a\tb\n", "", "=1+1", "@x", " -2", "\udcff=C", "\x1b[1m\u202e\u2069")
    assert found == "1\ta b\t\t'=1+1\t'@x\t'-2\t\\udcff=C\t\\x1b[1m\\u202e\\u2069"


def claim(folder, settings, data="1a"):
    files.claim(folder, settings, {"data": data}, ["command"], ("*.pt", MANIFEST))


def test_other_settings_and_inputs_are_refused_once_there_are_results(tmp_path):
    foreign = write_file(tmp_path / "others" / "checkpoint.pt", "").parent
    with pytest.raises(UserError, match=MANIFEST):
        claim(foreign, {"seed": 1})
    claim(tmp_path, {"seed": 1, "lr": 0.1})
    claim(tmp_path, {"seed": 2, "lr": 0.1})  # the first failed at once
    write_file(tmp_path / "checkpoint.pt", "")
    claim(tmp_path, {"seed": 2, "lr": 0.1})
    with pytest.raises(UserError, match=r"\n  data: there '1a', asked '2b'\n  seed: there 2, asked 3\n"):
        claim(tmp_path, {"seed": 3, "lr": 0.1}, "2b")
    with pytest.raises(UserError, match=r"\n  lr: there 0.1, asked None\n  the command there: command$"):
        claim(tmp_path, {"seed": 2})
    record = read_json(tmp_path / MANIFEST)
    assert (record["settings"], record["inputs"]) == ({"seed": 2, "lr": 0.1}, {"data": "1a"})
    assert record["command"] == ["command"] and set(record["versions"]) == {"python", *files.PACKAGES}
    assert record["commit"]
