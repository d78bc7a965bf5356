"""A file or folder gets its name when it is whole on the disk; else whatever had that name stays."""

import os
import signal

import pytest

from fs_plugins import files
from fs_plugins.files import atomic, new_folder
from tests.support.builders import write_file


def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(OSError, match="a folder, a pipe or a device"), atomic(path):
            pass
    assert (tmp_path / "pipe").is_fifo() and [*tmp_path.iterdir()] == [tmp_path / "pipe"]


@pytest.mark.parametrize("mode", ["w", "wb"])
def test_a_file_gets_its_name_when_it_is_complete(mode, tmp_path):
    path = tmp_path / "file"
    path.write_text("before")
    with pytest.raises(KeyboardInterrupt), atomic(path, mode) as file:
        file.write(b"half" if mode == "wb" else "half")
        raise KeyboardInterrupt
    assert path.read_text() == "before"
    with atomic(path, mode) as file:
        file.write(b"\xc3\xa9\n" if mode == "wb" else "é\n")
        assert path.read_text() == "before"
    assert path.read_bytes() == b"\xc3\xa9\n"
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


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
    def fill(text, target="out", **more):
        with new_folder(tmp_path / target, **more) as folder:
            write_file(folder / "summary.json", text)

    fill("1")
    for more in ({}, {"replaces": "other.json"}):
        with pytest.raises(FileExistsError, match="out exists already"):
            fill("2", **more)
    fill("3", replaces="summary.json")
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "out", replaces="summary.json"):
        raise KeyboardInterrupt
    (tmp_path / "link").symlink_to("out")
    with pytest.raises(OSError, match="a link or a mount point"):
        fill("4", target="link", replaces="summary.json")
    assert (tmp_path / "out" / "summary.json").read_text() == "3"


def test_what_a_killed_process_left(monkeypatch, tmp_path):
    """It is removed by the next."""
    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    ready, tell = os.pipe()
    if not (child := os.fork()):
        with new_folder(tmp_path / "out") as folder:
            (folder / "a").touch()
            os.write(tell, b"1")
            signal.pause()
    try:
        os.read(ready, 1)
        with pytest.raises(ValueError, match="another run is at work"), new_folder(tmp_path / "out"):
            pass
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert (tmp_path / ".out.partial" / "a").exists() and not (tmp_path / "out").exists()
    with new_folder(tmp_path / "out") as folder:
        assert not list(folder.iterdir())
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
