"""The quickstart from a small corpus to its table: interrupted, resumed, finished, and asked for others."""

import os
import re
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


@pytest.mark.slow
def test_interrupted_resumed_and_finished(tmp_path, environment):
    output = tmp_path / "run"
    output.mkdir()
    lines = [
        f"The {a} sat on the {b} and saw the other {a}.\n\n"
        for a in ("cat", "dog", "cow")
        for b in "abcdefghij"
    ]
    (output / "corpus.txt").write_text("".join(lines) * 4)  # in place of CPython's documentation

    def quickstart(*more):
        arguments = call("text", "--output", output, "--updates", UPDATES, *more)
        return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300)

    arguments = call("text", "--output", output, "--updates", UPDATES)
    interrupted = subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + 120
    while not (output / "exlm" / "checkpoint_last.pt").exists():
        assert interrupted.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    interrupted.send_signal(signal.SIGTERM)  # SIGINT may be ignored where the tests run in the background
    assert b"rerun the same command to resume" in interrupted.communicate(timeout=60)[1]
    assert interrupted.returncode == 130 and not processes_of(interrupted.pid)
    assert not (output / "table.txt").exists()

    resumed = quickstart()
    assert resumed.returncode == 0, resumed.stderr
    table = (output / "table.txt").read_text()
    assert table in resumed.stdout and "jointly" in table
    assert (output / "exlm" / "train.log").read_text().count("Loaded checkpoint") == 1
    picture = (output / "curve.png").stat().st_mtime_ns

    failing = tmp_path / "failing"
    failing.mkdir()
    for name in ("corpus.txt", "bpe", "data-bin"):
        (failing / name).symlink_to(output / name)
    (failing / "exlm").write_text("no folder")
    arguments = call("text", "--output", failing, "--updates", 100_000)
    failed = subprocess.Popen(arguments, env=environment, stderr=subprocess.PIPE, start_new_session=True)
    assert b"error: exlm failed" in failed.communicate(timeout=120)[1]
    assert failed.returncode == 1 and not processes_of(failed.pid)  # the other trainings are stopped

    other = quickstart("--seed", 2)
    assert other.returncode != 0 and "holds a run of other settings" in other.stderr
    assert (output / "curve.png").stat().st_mtime_ns == picture


@pytest.mark.slow
def test_molecules_to_the_table(tmp_path, environment):
    """With few of RDKit's molecules."""
    chains = ["C" * n + end for n in range(1, 26) for end in ("", "O", "N", "Cl")]
    (tmp_path / "pretrain.smi").write_text("\n".join(chains) + "\n")
    rows = [f"{smiles},{len(smiles) / 10}" for smiles in chains]
    (tmp_path / "logP.csv").write_text("\n".join(["smiles,logP", *rows]) + "\n")
    arguments = call("smiles", "--output", tmp_path, "--updates", 6)
    result = subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    table = (tmp_path / "table.txt").read_text()
    assert "pre-trained ExLM" in table and (tmp_path / "curve.png").exists()
    assert re.search(r"with +CC\(=O\)\S*c1ccccc1C\(=\S*\)O$", table)


def processes_of(session: int) -> list[int]:
    """All that the quickstart has started: its trainings are process groups of their own."""
    found = subprocess.run(["ps", "-s", str(session), "-o", "pid="], capture_output=True, text=True)
    return [int(process) for process in found.stdout.split()]


def test_mistakes_and_help(environment):
    def run(*arguments):
        return subprocess.run(call(*arguments), env=environment, capture_output=True, text=True)

    for arguments, said in (
        (["molecules"], "unknown option 'molecules'"),
        (["--seed"], "--seed needs a value"),
    ):
        result = run(*arguments)
        assert result.returncode != 0 and said in result.stderr
    shown = run("--help")
    assert shown.returncode == 0 and "[smiles | text]" in shown.stdout and "set -" not in shown.stdout
