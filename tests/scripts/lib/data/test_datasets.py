"""A new folder is complete or absent."""

import os

import pytest
from lib.command_line import UserError
from lib.data.datasets import new_folder

from tests.support.builders import write_file


def test_complete_or_absent(tmp_path):
    target = tmp_path / "deep" / "out"
    with pytest.raises(KeyboardInterrupt), new_folder(target) as folder:
        write_file(folder / "a", "a")
        raise KeyboardInterrupt
    assert list(target.parent.iterdir()) == []
    target.mkdir()
    before = os.umask(0o027)
    try:
        with new_folder(target) as folder:
            write_file(folder / "a", "a")
            assert list(target.iterdir()) == []
    finally:
        os.umask(before)
    assert (target / "a").read_text() == "a" and [p.name for p in target.parent.iterdir()] == ["out"]
    assert target.stat().st_mode & 0o777 == 0o750  # as open as others


def test_it_replaces_its_own_only(tmp_path):
    def fill(text, **more):
        with new_folder(tmp_path / "out", **more) as folder:
            write_file(folder / "summary.json", text)

    fill("1")
    for more in ({}, {"replaces": "other.json"}):
        with pytest.raises(UserError, match="out exists already"):
            fill("2", **more)
    fill("3", replaces="summary.json")
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "out", replaces="summary.json"):
        raise KeyboardInterrupt
    assert (tmp_path / "out" / "summary.json").read_text() == "3"
    write_file(tmp_path / "file", "")
    with pytest.raises(UserError, match="cannot write to .*file"), new_folder(tmp_path / "file" / "out"):
        pass
