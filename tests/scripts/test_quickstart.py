"""The quickstart from a small corpus to its table: killed, resumed, finished, and asked for others."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "quickstart.sh"
UPDATES = 30


def call(*arguments) -> list[str]:
    return ["bash", str(SCRIPT), *map(str, arguments)]


@pytest.fixture
def environment():
    return {**os.environ, "EXLM_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}


def test_killed_resumed_and_finished(tmp_path, environment):
    output = tmp_path / "run"
    output.mkdir()
    lines = [
        f"The {a} sat on the {b} and saw the other {a}.\n\n"
        for a in ("cat", "dog", "cow")
        for b in "abcdefghij"
    ]
    (output / "corpus.txt").write_text("".join(lines) * 4)  # in place of CPython's documentation

    def quickstart(*more):
        arguments = call("--output", output, "--updates", UPDATES, *more)
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300)

    first = subprocess.Popen(
        call("--output", output, "--updates", UPDATES),
        env=environment,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    deadline = time.monotonic() + 120
    while not (output / "exlm" / "checkpoint_last.pt").exists():
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    kill_session(first.pid)
    first.wait()
    assert not (output / "table.txt").exists()

    resumed = quickstart()
    assert resumed.returncode == 0, resumed.stderr
    table = (output / "table.txt").read_text()
    assert table in resumed.stdout and "ahead of" in table
    assert (output / "exlm" / "train.log").read_text().count("Loaded checkpoint") == 1
    picture = (output / "curve.png").stat().st_mtime_ns

    other = quickstart("--seed", 2)
    assert other.returncode != 0 and "holds a run of other settings" in other.stderr
    assert (output / "curve.png").stat().st_mtime_ns == picture


def kill_session(leader: int) -> None:
    """SIGKILL to a process and all that it has started; its trainings are process groups of their own."""
    processes = subprocess.run(["ps", "-s", str(leader), "-o", "pid="], capture_output=True, text=True).stdout
    for process in processes.split():
        os.kill(int(process), signal.SIGKILL)


@pytest.mark.parametrize(
    ("arguments", "said"), [(["molecules"], "unknown option 'molecules'"), (["--k"], "--k needs a value")]
)
def test_mistakes(arguments, said, environment):
    result = subprocess.run(call(*arguments), env=environment, capture_output=True, text=True)
    assert result.returncode != 0 and said in result.stderr


def test_help(environment):
    result = subprocess.run(call("--help"), env=environment, capture_output=True, text=True)
    assert result.returncode == 0 and "[text | smiles]" in result.stdout and "set -" not in result.stdout
