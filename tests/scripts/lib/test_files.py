"""Files; output folders of one kind of settings."""

import re
import subprocess

import pytest
from lib import files
from lib.command_line import UserError
from lib.files import MANIFEST, sha256, tsv_line

from tests.support.builders import write_file


def test_the_commit_of_this_clone_or_of_none(tmp_path, monkeypatch):
    head = tmp_path / "a"
    words = ["git", "-c", "user.name=a", "-c", "user.email=b", "-C", str(head)]
    subprocess.run(["git", "init", "-q", str(head)], check=True)
    subprocess.run([*words, "commit", "-q", "--allow-empty", "-m", "c"], check=True)
    for root, known in ((head, "[0-9a-f]{40}"), (tmp_path, "unknown")):
        monkeypatch.setattr(files, "ROOT", root)
        assert re.fullmatch(known, files.git_commit())


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


def test_a_folder_with_results_of_others_is_not_taken(tmp_path):
    """Those of another run are test_launch.py's."""
    foreign = write_file(tmp_path / "checkpoint.pt", "").parent
    with pytest.raises(UserError, match=MANIFEST):
        files.claim(foreign, {"seed": 1}, {}, ["command"], ("*.pt", MANIFEST))
