"""The profile for SLURM with a limit of time that is shorter than a training."""

import json
import os
import subprocess

import pytest

from tests.scripts.workflow.engine import command
from tests.support import builders, slurm

pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs pip install -e '.[workflow]'")


@pytest.mark.slow
def test_a_training_in_several_jobs(tmp_path):
    """Each has time for one update."""
    builders.text_folder(tmp_path / "data")
    folder = tmp_path / "out/study/exlm-k2-p0.387/lr-default/seed-1"
    words = [(folder / "train.json").relative_to(tmp_path), "--latency-wait", "9"]
    words += ["--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"]
    words += ["--default-resources", "slurm_partition=nodes", "slurm_account=mine", "mem_mb=1000"]
    words += ["runtime=60", "--config", "output=out", "data=data", "updates=2", "gpus=0"]
    words += ["flags=--stop-time-hours 1e-9"]
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **slurm.install(tmp_path / "queue")}
    asked = {"cwd": tmp_path, "env": environment, "capture_output": True, "text": True, "timeout": 1800}
    done = subprocess.run(command(*words, profile="slurm"), **asked)
    assert done.returncode == 0, done.stdout + done.stderr
    states = [path.read_text().split() for path in sorted((tmp_path / "queue").glob("*.state"))]
    assert states == [["PENDING", "RUNNING", "FAILED"], ["PENDING", "RUNNING", "COMPLETED"]]
    for job in (tmp_path / "queue").glob("*.job"):
        assert {"--nodes=1", "--requeue", "60"} <= {*json.loads(job.read_text())}
    trained = json.loads((folder / "train.json").read_text())
    assert trained["updates"] == 2
    assert (folder / "log/pretrain.log").read_text().count("ended this call: rerun the same command") == 1
