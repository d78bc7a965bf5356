"""The profile for SLURM with a limit of time that is shorter than a training."""

import json
import os

import pytest

from tests.scripts.workflow.engine import finish
from tests.support import builders

pytest.importorskip("snakemake_executor_plugin_slurm", reason="needs pip install -e '.[workflow]'")

# SLURM's commands: each job runs at once, before sbatch ends; N.job has its words, ``ended`` how it ended
SLURM = """#!/bin/bash
queue=$(dirname "$0")
case ${0##*/} in
    sbatch)
        job=$(ls "$queue" | grep -c job)
        printf '%s\\n' "$@" >"$queue/$job.job"
        bash -c "${!#/#--wrap=}" &>"$queue/$job.log" && state=COMPLETED || state=FAILED
        echo "$job|$state" >>"$queue/ended"
        echo "$job" ;;
    squeue) cat "$queue/ended" ;;
    srun) while [[ $1 == -* ]]; do shift; done; exec "$@" ;;
    *) echo one ;;
esac
"""


@pytest.mark.slow
def test_a_training_in_several_jobs(tmp_path):
    """Each has time for one update."""
    builders.text_folder(tmp_path / "data")
    for name in ("sbatch", "squeue", "srun", "sinfo", "sacctmgr"):
        builders.write_file(tmp_path / "queue" / name, SLURM).chmod(0o755)
    folder = tmp_path / "out/study/exlm-k2-p0.387/seed-1"
    words = [(folder / "train.json").relative_to(tmp_path), "--latency-wait", "9"]
    words += ["--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"]
    words += ["--default-resources", "slurm_partition=one", "slurm_account=one", "mem_mb=1000", "runtime=60"]
    words += ["--config", "output=out", "data=data", "updates=2", "gpus=0", "flags=--stop-time-hours 1e-9"]
    finish(tmp_path, *words, profile="slurm", PATH=f"{tmp_path / 'queue'}:{os.environ['PATH']}")
    assert (tmp_path / "queue/ended").read_text() == "0|FAILED\n1|COMPLETED\n"
    for job in (tmp_path / "queue").glob("*.job"):
        assert {"--nodes=1", "--requeue", "60"} <= {*job.read_text().splitlines()}
    assert json.loads((folder / "train.json").read_text())["updates"] == 2
    assert (folder / "log/pretrain.log").read_text().count("ended this call: rerun the same command") == 1
