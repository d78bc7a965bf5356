"""The workflow on a real SLURM: jobs are submitted, and one that scancel ended resumes at the next call.

Runs if a cluster answers, such as that of tests/manual/slurm/start.sh.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from tests.scripts.workflow.engine import ROOT, command

pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs pip install -e '.[workflow]'")
if shutil.which("sinfo") is None or subprocess.run(["sinfo"], capture_output=True).returncode:
    pytest.skip("needs SLURM: see tests/manual/slurm/start.sh", allow_module_level=True)

UPDATES = 300
PATIENCE = 1800  # seconds; the test takes some minutes on an idle machine


def snakemake(output: Path, target: str) -> subprocess.Popen:
    words = [target, "--default-resources", "mem_mb=1500", "runtime=60", "--latency-wait", "10"]
    words += ["--slurm-status-command", "squeue", "--slurm-no-account"]
    words += ["--slurm-init-seconds-before-status-checks", "2", "--seconds-between-status-checks", "2"]
    words += ["--config", f"output={output}", "gpus=0", "only=k=4,p=0.15,model=exlm", f"updates={UPDATES}"]
    log = (output.parent / "snakemake.log").open("a")
    asked = command(*words, "sentences=100", profile="slurm")
    return subprocess.Popen(asked, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


def wait_for(found, engine: subprocess.Popen, seconds: float = PATIENCE):
    deadline = time.monotonic() + seconds
    while not (value := found()):
        assert engine.poll() is None, "the engine ended"
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return value


def jobs() -> list[str]:
    command = ["squeue", "--me", "--noheader", "--states=RUNNING", "--format=%i"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()


def test_a_cancelled_job_resumes(tmp_path):
    output = tmp_path / "out"
    folder = output / "study/exlm-k4-p0.15/lr-default/seed-1"
    engine = snakemake(output, "figure12")
    log = folder / "train.log"
    wait_for(lambda: log.exists() and "Saved checkpoint" in log.read_text(), engine)
    [job] = jobs()
    subprocess.run(["scancel", job], check=True)
    assert engine.wait(PATIENCE) != 0
    assert not (folder / "train.json").exists()

    assert snakemake(output, "figure12").wait(PATIENCE) == 0
    assert json.loads((folder / "train.json").read_text())["updates"] == UPDATES
    assert json.loads((folder / "entropy.json").read_text())
    assert "Loaded checkpoint" in log.read_text()
    assert not jobs()
