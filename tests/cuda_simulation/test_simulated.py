"""The CUDA kernels as PTX in GPGPU-Sim (``scripts/gpu_simulate.sh``), where that is installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fs_plugins.custom_ops import sources

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "gpu_simulate.sh"
HOME = os.environ.get("GPUSIM_HOME", "")
pytestmark = pytest.mark.skipif(
    not HOME, reason="GPUSIM_HOME is not set: the folder of an installed GPGPU-Sim"
)


def simulate(folder: Path, *arguments: str) -> subprocess.CompletedProcess:
    command = ["bash", str(SCRIPT), "--output", str(folder), *arguments, HOME]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", ["float", "double"])
def test_small_sizes_have_no_finding(tmp_path, kind):
    rows = [f"{name}-{kind}" for name in ("tiny", "nan", "slices", "any")]
    run = simulate(tmp_path, "--check", *(word for row in rows for word in ("--only", row)))
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count(" ok ") == len(rows)


def test_missing_barrier_is_found(tmp_path):
    """The staging of tiles without the barrier between a warp's writes and reads."""
    mutant = shutil.copytree(sources.CSRC, tmp_path / "csrc") / "dag_cuda_tiles.cuh"
    text = mutant.read_text()
    assert text.count("\n        __syncwarp();\n") == 2
    mutant.write_text(text.replace("\n        __syncwarp();\n", "\n", 1))
    run = simulate(tmp_path / "runs", "--check", "--only", "tiny-float", "--sources", str(mutant.parent))
    assert run.returncode == 1 and "races" in run.stdout, run.stdout + run.stderr


@pytest.mark.slow
def test_a_sentence_is_timed(tmp_path):
    run = simulate(tmp_path, "--time", "--only", "early-84")
    assert run.returncode == 0, run.stdout + run.stderr
    assert re.search(r"early-84 +ok .* forward_tiles \d+ .* backward_tiles \d+ ", run.stdout), run.stdout
