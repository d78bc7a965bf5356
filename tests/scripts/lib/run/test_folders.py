"""The contract of output folders: one run at a time, of one kind of settings, written completely."""

import errno
import os
import subprocess
import sys

import pytest
from lib import files
from lib.command_line import UserError
from lib.data.datasets import new_folder
from lib.files import read_json

MANIFEST = files.MANIFEST


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.1)


def test_one_run_at_a_time(tmp_path):
    folder = tmp_path / "new" / "folder"
    message = "another run is at work in .*folder: wait for it, or stop it .kill [0-9]+ on "
    with files.locked(folder), pytest.raises(UserError, match=message):
        files.lock(folder)
    with files.locked(folder):
        pass


def test_a_lock_is_held_by_the_children_that_inherit_it(tmp_path):
    descriptor = files.lock(tmp_path)
    child = subprocess.Popen(["sleep", "60"], pass_fds=[descriptor])
    os.close(descriptor)
    with pytest.raises(UserError, match="another run"):
        files.lock(tmp_path)
    child.kill()
    child.wait()
    os.close(files.lock(tmp_path))


def test_a_lock_waits_for_what_a_killed_run_left(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 30.0)
    descriptor = files.lock(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"], pass_fds=[descriptor])
    os.close(descriptor)
    os.close(files.lock(tmp_path))
    assert child.poll() == 0


def test_folders_that_cannot_be_held(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(UserError, match="cannot write to .*file.*: choose another folder"):
            files.lock(folder)

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(files.fcntl, "flock", refuse)
    with pytest.raises(UserError, match=r"cannot write to .* \(.*\): choose another folder"):
        files.lock(tmp_path)


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "folder", "of another user"])
def test_a_lock_is_no_foreign_file(kind, tmp_path, monkeypatch):
    victim, folder = tmp_path / "victim", tmp_path / "save"
    victim.write_text("thesis")
    folder.mkdir()
    lock = folder / "lock"
    make = {"link": lock.symlink_to, "hard link": lock.hardlink_to, "pipe": lambda _: os.mkfifo(lock)}
    make |= {"folder": lambda _: lock.mkdir(), "of another user": lambda _: lock.write_text("thesis")}
    make[kind](victim)
    if kind == "of another user":
        mode, *about = lock.stat()
        about[3] += 1
        monkeypatch.setattr(files.os, "fstat", lambda _: os.stat_result([mode, *about]))
    with pytest.raises(UserError, match="lock is not a lock of yours"):
        files.try_lock(lock)
    assert victim.read_text() == "thesis"


def test_what_a_lock_says_is_no_escape_sequence(tmp_path):
    with files.locked(tmp_path):
        (tmp_path / "lock").write_text("kill 1 on \x1b[2J")
        assert files.try_lock(tmp_path / "lock") == (None, "its process is unknown")


def claim(folder, settings, inputs=None):
    files.claim(folder, settings, inputs or {}, ["command"], ("*.pt", MANIFEST))


def test_what_is_recorded(tmp_path):
    claim(tmp_path, {"seed": 1}, {"data": "1a"})
    record = read_json(tmp_path / MANIFEST)
    assert (record["settings"], record["inputs"]) == ({"seed": 1}, {"data": "1a"})
    assert record["command"] == ["command"] and set(record["versions"]) == {"python", *files.PACKAGES}
    assert record["commit"]


def test_other_settings_and_inputs_are_refused_once_there_are_results(tmp_path):
    claim(tmp_path, {"seed": 1, "lr": 0.1}, {"data": "1a"})
    claim(tmp_path, {"seed": 2, "lr": 0.1}, {"data": "1a"})  # the first failed at once
    (tmp_path / "checkpoint.pt").write_text("")
    claim(tmp_path, {"seed": 2, "lr": 0.1}, {"data": "1a"})
    with pytest.raises(UserError, match=r"(?s)data: there '1a', asked '2b'\n  seed: there 2, asked 3\n"):
        claim(tmp_path, {"seed": 3, "lr": 0.1}, {"data": "2b"})
    with pytest.raises(UserError, match=r"\n  lr: there 0.1, asked None\n  the command there: command$"):
        claim(tmp_path, {"seed": 2}, {"data": "1a"})
    assert read_json(tmp_path / MANIFEST)["settings"]["seed"] == 2


def test_results_of_others_and_damaged_records(tmp_path):
    (tmp_path / "checkpoint.pt").write_text("")
    with pytest.raises(UserError, match="holds results without a manifest.json: choose another folder"):
        claim(tmp_path, {})
    assert not (tmp_path / MANIFEST).exists()
    (tmp_path / MANIFEST).write_text("{")
    with pytest.raises(UserError, match="manifest.json is damaged"):
        claim(tmp_path, {"seed": 1})


def test_a_new_folder_is_complete_or_absent(tmp_path):
    target = tmp_path / "deep" / "out"
    with pytest.raises(KeyboardInterrupt), new_folder(target) as folder:
        (folder / "a").write_text("a")
        raise KeyboardInterrupt
    assert list((tmp_path / "deep").iterdir()) == []
    target.mkdir()
    with new_folder(target) as folder:
        (folder / "a").write_text("a")
        assert list(target.iterdir()) == []
    assert (target / "a").read_text() == "a" and [p.name for p in target.parent.iterdir()] == ["out"]


def test_a_new_folder_is_as_open_as_others(tmp_path):
    before = os.umask(0o027)
    try:
        with new_folder(tmp_path / "out"):
            pass
        assert (tmp_path / "out").stat().st_mode & 0o777 == 0o750
    finally:
        os.umask(before)


def test_a_new_folder_replaces_its_own_only(tmp_path):
    def fill(text, **more):
        with new_folder(tmp_path / "out", **more) as folder:
            (folder / "summary.json").write_text(text)

    fill("1")
    with pytest.raises(UserError, match="out exists already: choose another OUTPUT, or remove it first"):
        fill("2")
    fill("3", replaces="summary.json")
    assert (tmp_path / "out" / "summary.json").read_text() == "3"
    with pytest.raises(UserError, match="exists already"):
        fill("4", replaces="other.json")
    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "out", replaces="summary.json"):
        raise KeyboardInterrupt
    assert (tmp_path / "out" / "summary.json").read_text() == "3"
    (tmp_path / "file").write_text("")
    message = "cannot write to .*file"
    with pytest.raises(UserError, match=message), new_folder(tmp_path / "file" / "out"):
        pass


def test_a_new_folder_on_a_full_disk(tmp_path):
    with pytest.raises(OSError, match="No space left"), new_folder(tmp_path / "out"):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert list(tmp_path.iterdir()) == []
