"""The command of a run holds the folder of the run."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from recipes import folders, hold
from recipes.command_line import RecipeError

MADE_OF = {"settings": {"lr": "1"}, "inputs": {"data": "0"}, "command": ["page.sh"]}


def run(save, made_of, *command, **environment):
    call = [sys.executable, "-m", "recipes.hold", str(save), json.dumps(made_of), *command]
    return subprocess.run(call, capture_output=True, text=True, env={**os.environ, **environment})


def test_the_output_goes_to_the_log_too_and_the_status_is_the_commands(tmp_path):
    for i in (1, 2):
        result = run(tmp_path / "a b", MADE_OF, "bash", "-c", f"echo out{i}; echo err{i} >&2; exit {i + 2}")
        assert result.returncode == i + 2 and f"out{i}\n" in result.stdout
    assert (tmp_path / "a b" / "train.log").read_text() == "out1\nerr1\nout2\nerr2\n"
    record = json.loads((tmp_path / "a b" / "made_of.json").read_text())
    assert record["command"] == ["page.sh"] and record["runs"][:2] == ["bash", "-c"]
    assert record["settings"] == {"lr": "1"} and record["versions"]["python"] and record["commit"]


def test_a_folder_is_of_one_kind_of_run(tmp_path):
    other = {**MADE_OF, "settings": {"lr": "2"}}
    assert run(tmp_path, MADE_OF, "false").returncode == 1
    assert run(tmp_path, other, "true").returncode == 0  # the first had failed at once
    (tmp_path / "checkpoint_last.pt").touch()
    refused = run(tmp_path, MADE_OF, "true")
    assert refused.returncode == 2 and "lr: there '2', asked '1'" in refused.stderr
    assert run(tmp_path, other, "true").returncode == 0


def test_ctrl_c_says_what_to_do(tmp_path):
    # also where the tests run in the background, and so ignore it
    interrupts_itself = "import signal as s; s.signal(s.SIGINT, s.SIG_DFL); s.raise_signal(s.SIGINT)"
    result = run(tmp_path, MADE_OF, sys.executable, "-c", interrupts_itself)
    said = f"interrupted: rerun the same command to resume; the log is {tmp_path}/train.log\n"
    assert (result.returncode, result.stderr) == (130, said)


def test_only_the_first_process_claims_the_folder(tmp_path):
    assert run(tmp_path / "save", MADE_OF, "true", RANK="1").returncode == 0
    assert not (tmp_path / "save").exists()


def test_a_folder_is_held_while_the_command_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "PATIENCE", 0.2)
    call = [sys.executable, "-m", "recipes.hold", str(tmp_path), json.dumps(MADE_OF), "sleep", "60"]
    process = subprocess.Popen(call)
    try:
        deadline = time.monotonic() + 20
        while not (tmp_path / "train.log").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        with pytest.raises(RecipeError, match="another run is at work in"):
            hold.hold(tmp_path, MADE_OF, ["true"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 128 + signal.SIGTERM  # the command's end
    finally:
        process.kill()
    with (tmp_path / "lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # free again


def test_the_command_keeps_the_folder_if_what_started_it_is_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(folders, "PATIENCE", 0.2)
    script = "echo $$ > pid; exec sleep 60"
    call = [sys.executable, "-m", "recipes.hold", str(tmp_path), json.dumps(MADE_OF), "bash", "-c", script]
    process = subprocess.Popen(call, cwd=tmp_path)
    deadline = time.monotonic() + 20
    while not ((tmp_path / "pid").exists() and (tmp_path / "pid").read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    try:
        with pytest.raises(RecipeError, match="another run is at work in"):
            hold.hold(tmp_path, MADE_OF, ["true"])
    finally:
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    monkeypatch.setattr(folders, "PATIENCE", 10)
    assert hold.hold(tmp_path, MADE_OF, ["true"]) == 0
