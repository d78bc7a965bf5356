"""Jobs get GPUs of their own, as long as they run."""

import os
import signal
import subprocess
import sys
import threading
import time
from argparse import Namespace

import pytest
from lib.command_line import Flags, UserError
from lib.run import on_gpu
from lib.run.launch import check_gpus, devices

JOB = [sys.executable, "-m", "lib.run.on_gpu"]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine with three GPUs."""
    smi = tmp_path / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text("#!/bin/sh\nprintf 'GPU-a\\nGPU-b\\nGPU-c\\n'\n")
    smi.chmod(0o755)
    monkeypatch.setenv("PATH", f"{smi.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(on_gpu, "POLL", 0.05)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


# CUDA stops at the first that does not exist
ASKED = [(None, ["GPU-a", "GPU-b", "GPU-c"]), ("2,0", ["GPU-c", "GPU-a"]), ("1,-1,2", ["GPU-b"]), ("", [])]


@pytest.mark.parametrize(("asked", "found"), [*ASKED, ("MIG-x", ["MIG-x"])])
def test_visible_gpus(machine, monkeypatch, asked, found):
    if asked is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", asked)
    assert on_gpu.visible_gpus() == found
    workers, flags = devices(Namespace(gpus=None, precision=None, user=Flags()))
    assert (workers, "--fp16" in flags) == (max(1, len(found)), bool(found))
    monkeypatch.setenv("PATH", "")  # without a driver
    assert on_gpu.visible_gpus({}) == []


def test_gpus_that_pytorch_does_not_see_or_sees_alone(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    with pytest.raises(UserError, match="PyTorch sees 1 of 2 GPUs"):
        check_gpus(Flags.of("--distributed-world-size 2"))
    with pytest.raises(UserError, match="PyTorch sees 1 GPU, nvidia-smi none"):
        check_gpus(Flags.of("--cpu"))
    check_gpus(Flags.of("--cpu"), 0)  # asked for
    # of several machines
    check_gpus(Flags.of("--distributed-world-size 16 --distributed-init-method tcp://a:1"))


def test_what_a_launcher_left_behind():
    args = Namespace(gpus=4, precision=None, user=Flags())
    for left in ({"RANK": "1"}, {"RANK": "0", "WORLD_SIZE": "1"}):
        workers, flags = devices(args, left)
        assert workers == 4 and "--distributed-rank" not in flags
    with pytest.raises(UserError, match="WORLD_SIZE=2, but no MASTER_ADDR"):
        devices(args, {"RANK": "1", "WORLD_SIZE": "2"})


def test_two_jobs_never_get_one_gpu(machine, capsys):
    gpus, third = ["GPU-a", "GPU-b", "GPU-c"], {}
    first, second = on_gpu.acquire(gpus, 2), on_gpu.acquire(gpus, 1)
    assert [*first, *second] == gpus
    thread = threading.Thread(target=lambda: third.update(on_gpu.acquire(gpus, 2)))
    thread.start()
    time.sleep(1.5 * on_gpu.POLL)
    os.close(second["GPU-c"])  # one is free: not enough
    time.sleep(1.5 * on_gpu.POLL)
    assert not third
    os.close(first["GPU-b"])
    thread.join(10)
    assert list(third) == ["GPU-b", "GPU-c"]
    assert "waiting for 2 of 3 GPUs" in capsys.readouterr().err


def test_the_command_sees_its_gpus(machine, tmp_path):
    def call(*words) -> tuple[int, str, str]:
        done = subprocess.run([*JOB, *map(str, words)], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    show = ["--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES"]
    assert call("--gpus", 0, *show) == (0, "\n", "") and not (tmp_path / "cache").exists()
    held = on_gpu.acquire(["GPU-a"], 1)
    assert (tmp_path / "cache/exlm-gpus").stat().st_mode & 0o777 == 0o700
    assert call("--gpus", 2, *show) == (0, "GPU-b,GPU-c\n", "")
    os.close(held["GPU-a"])
    assert call(*show) == (0, "GPU-a\n", "")
    assert call("--", "sh", "-c", "kill -PIPE $$")[0] == -signal.SIGPIPE
    status, _, error = call("--gpus", 4, *show)
    assert status == 2 and "--gpus 4: this job sees 3 GPUs" in error


def test_a_gpu_is_held_while_the_command_or_what_it_started_runs(machine, tmp_path):
    (started, end), free = (tmp_path / name for name in ("started", "end")), ["GPU-a", "GPU-b", "GPU-c"]
    command = f"trap 'exit 7' TERM; until [[ -e {end} ]]; do sleep 0.05; done & touch {started}; wait"
    job = subprocess.Popen([*JOB, "--gpus", "1", "--", "bash", "-c", command])
    while not started.exists():
        assert job.poll() is None
        time.sleep(0.05)
    job.send_signal(signal.SIGTERM)  # ends the command in its own way, but not what it started
    assert job.wait() == 7 and [*on_gpu.acquire(free, 2)] == ["GPU-b", "GPU-c"]
    end.touch()
    assert [*on_gpu.acquire(free, 1)] == ["GPU-a"]  # waits for it
