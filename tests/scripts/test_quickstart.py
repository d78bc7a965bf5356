"""The quickstart from a small corpus to its table: interrupted, resumed and finished."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import prepare_smiles
import pytest

from tests.support.builders import write_file

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "quickstart.sh"


def start(*words, python=sys.executable) -> subprocess.Popen:
    """The quickstart as a process."""
    environment = {**os.environ, "EXLM_PYTHON": str(python), "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = ["bash", str(SCRIPT), *map(str, words)]
    return subprocess.Popen(command, env=environment, start_new_session=True, **pipes)


def end(process, status=0) -> tuple[str, str]:
    """Both outputs of a process that ends with this status, and all that it has started with it."""
    printed, errors = process.communicate(timeout=1800)  # on a busy machine
    assert process.returncode == status, printed + errors
    left = subprocess.run(["ps", "-s", str(process.pid), "-o", "pid="], capture_output=True, text=True)
    assert not left.stdout.split()
    return printed, errors


@pytest.mark.slow
def test_interrupted_resumed_and_finished(tmp_path):
    output = tmp_path / "run"
    lines = (
        f"The {a} sat on the {b} and saw the other {a}." for a in ("cat", "dog", "cow") for b in "abcdefghij"
    )
    write_file(output / "corpus.txt", "\n\n".join([*lines] * 4))  # in place of CPython's documentation
    words = ("text", "--output", output, "--updates", 20)
    interrupted, deadline = start(*words), time.monotonic() + 600
    while not (output / "exlm" / "checkpoint_last.pt").exists():
        assert interrupted.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    interrupted.send_signal(signal.SIGTERM)  # SIGINT may be ignored where the tests run in the background
    assert "rerun the same command to resume" in end(interrupted, 130)[1]
    assert not (output / "table.txt").exists()

    printed, _ = end(start(*words))
    table = (output / "table.txt").read_text()
    assert table in printed and "jointly" in table
    assert (output / "exlm" / "train.log").read_text().count("Loaded checkpoint") == 1
    assert (output / "updates.png").exists()


def test_the_first_training_that_fails_ends_all(tmp_path):
    """With a Python that fails for ExLM, and never ends for the others."""
    code = '#!/bin/sh\ncase "$*" in *"/exlm --cpu"*) exit 1 ;; esac\nsleep 3000\n'
    python = write_file(tmp_path / "python", code)
    python.chmod(0o755)
    for name in ("corpus.txt", "bpe/tokenizer.json", "data-bin/dict.txt"):
        write_file(tmp_path / name, "")
    assert "error: exlm failed" in end(start("text", "--output", tmp_path, python=python), 1)[1]
    end(start("molecules", python=python), 2)


@pytest.mark.slow
def test_molecules_to_the_table(tmp_path):
    """With few molecules in place of RDKit's."""
    chains = ["C" * n + end for n in range(1, 26) for end in ("", "O", "N", "Cl")]
    train = write_file(tmp_path / "pretrain.smi", "\n".join(chains) + "\n")
    prepare_smiles.main([str(tmp_path / "data-bin"), "--train", str(train), "--valid-share", "0.1"])
    end(start("smiles", "--output", tmp_path, "--updates", 6))
    table = (tmp_path / "table.txt").read_text()
    rows = json.loads((tmp_path / "joint.json").read_text())["rows"]
    [found] = [row["results"][0] for row in rows if row["checkpoint"].endswith("/exlm/checkpoint_last.pt")]
    bits = " +".join(f"{found[name]['mean']:z.2f}" for name in ("joint", "marginal", "gain"))
    assert re.search(rf"^ExLM \(paper\) +{bits}$", table, re.M) and (tmp_path / "seconds.png").exists()
    assert re.search(r"with +CC\(=O\)\S*c1ccccc1C\(=\S*\)O$", table)
