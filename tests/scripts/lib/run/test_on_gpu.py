"""Jobs get GPUs of their own, keep a log, and end with the workflow."""

import os
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace
from pathlib import Path

import pytest
from lib.command_line import Flags, UserError
from lib.run import on_gpu
from lib.run.launch import devices

JOB = [sys.executable, "-m", "lib.run.on_gpu"]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with three GPUs."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\nprintf 'GPU-a\\nGPU-b\\nGPU-c\\n'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(on_gpu.tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(on_gpu, "POLL", 0.05)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (None, ["GPU-a", "GPU-b", "GPU-c"]),
        ("2,0", ["GPU-c", "GPU-a"]),
        ("GPU-b", ["GPU-b"]),
        ("MIG-x", ["MIG-x"]),
        ("1,-1,2", ["GPU-b"]),  # CUDA stops at the first that does not exist
        ("1,7,2", ["GPU-b"]),
        ("", []),
    ],
)
def test_visible_gpus(machine, monkeypatch, asked, found):
    if asked is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    assert on_gpu.visible_gpus() == found
    workers, flags = devices(Namespace(gpus=None, precision=None, user=Flags()))
    assert (workers, "--fp16" in flags) == (max(1, len(found)), bool(found))
    monkeypatch.setenv("PATH", "")  # without a driver
    assert on_gpu.visible_gpus({}) == []


def waiting_for(*asked) -> tuple[threading.Thread, dict]:
    """acquire() in a thread, which has been waiting for a while, and what it will have taken."""
    held = {}
    thread = threading.Thread(target=lambda: held.update(on_gpu.acquire(*asked)))
    thread.start()
    time.sleep(1.5 * on_gpu.POLL)
    return thread, held


def test_two_jobs_never_get_one_gpu(machine, capsys):
    gpus = ["GPU-a", "GPU-b", "GPU-c"]
    first, second = on_gpu.acquire(gpus, 2), on_gpu.acquire(gpus, 1)
    assert [*first, *second] == gpus
    thread, third = waiting_for(gpus, 2)
    second["GPU-c"].release()  # one is free: not enough
    time.sleep(1.5 * on_gpu.POLL)
    assert not third
    first["GPU-b"].release()
    thread.join(10)
    assert list(third) == ["GPU-b", "GPU-c"]
    assert "waiting for 2 of 3 GPUs" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["open to all", "a link"])
def test_locks_in_a_folder_of_others(kind, machine, tmp_path):
    folder, victim = tmp_path / f"exlm-gpus-{os.getuid()}", tmp_path / "victim"
    victim.mkdir(mode=0o700)
    folder.symlink_to(victim) if kind == "a link" else folder.mkdir()
    with pytest.raises(UserError, match="is not a folder of yours alone"):
        on_gpu.acquire(["GPU-a"], 1)
    assert not list(victim.iterdir())


def test_jobs_that_share(machine):
    gpus = ["GPU-a", "GPU-b"]
    jobs = [on_gpu.acquire(gpus, 1, 2) for _ in range(4)]
    assert [*map(list, jobs)] == [["GPU-a"], ["GPU-b"], ["GPU-a"], ["GPU-b"]]  # spread evenly
    thread, fifth = waiting_for(gpus, 1, 2)
    assert not fifth
    jobs[1]["GPU-b"].release()
    thread.join(10)
    assert list(fifth) == ["GPU-b"]


@pytest.fixture
def call(capfd, monkeypatch):
    """call(WORD...) -> exit status and both outputs of a job."""

    def run(*words) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["on_gpu", *map(str, words)])
        return on_gpu.main(), *capfd.readouterr()

    return run


def test_the_command_sees_its_gpus(machine, call):
    show = ["--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
    held = on_gpu.acquire(["GPU-a"], 1)
    assert call(*show) == (0, "GPU-b\n", "")
    assert call("--jobs-per-gpu", 2, "--gpus", 3, *show) == (0, "GPU-b,GPU-c,GPU-a\n", "")
    held["GPU-a"].release()
    assert call("--gpus", 0, *show) == (0, "\n", "")
    status, _, error = call("--gpus", 4, *show)
    assert status == 2 and "--gpus 4: this job sees 3 GPUs" in error


def test_log(tmp_path, call):
    log = tmp_path / "deep" / "log"
    options = ("--gpus", 0, "--log", log, "--")
    assert call(*options, "sh", "-c", "echo one; echo two >&2") == (0, "", "")
    status, _, error = call(*options, "sh", "-c", "seq 30; echo the reason why; exit 3")
    assert status == 3 and str(log) in error and "the reason why" in error
    assert "\n17\n" in error and "\n5\n" not in error
    assert log.read_text().startswith("one\ntwo\n1\n2\n")


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("how", ["engine killed", "job interrupted"])
def test_nothing_outlives_the_engine(tmp_path, how):
    """The engine starts a shell, which starts the job, whose command starts another process."""
    pids = tmp_path / "pids"
    command = f"sleep 600 & echo $$ $! > {pids}.new; mv {pids}.new {pids}; wait"
    engine = [sys.executable, "-c", "import subprocess, sys; subprocess.Popen(sys.argv[1:]).wait()"]
    shell = ["bash", "-c", 'echo $$ > "$0"; "$@"; exit $?', str(tmp_path / "shell")]
    engine = subprocess.Popen([*engine, *shell, *JOB, "--gpus", "0", "--", "bash", "-c", command])
    deadline = time.monotonic() + 500  # on a busy machine
    while not pids.exists():
        assert time.monotonic() < deadline and engine.poll() is None
        time.sleep(0.05)
    started = [int(pid) for pid in pids.read_text().split()]
    assert all(map(alive, started))
    if how == "engine killed":
        engine.kill()
    else:
        shell = (tmp_path / "shell").read_text().strip()
        [job] = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        os.kill(int(job), signal.SIGTERM)
    engine.wait()
    while any(map(alive, started)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, started))
