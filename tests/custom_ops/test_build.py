"""What setup.py asks of nvcc and of the C++ compiler, with stand-ins that note their words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
# makes an empty library unless BROKEN is its name
COMPILER = """#!/usr/bin/env bash
printf '%s\\n' "$@" >"$0.words"
if [[ ${BROKEN:-} == "$(basename "$0")" ]]; then echo "unsupported host compiler"; exit 1; fi
while [[ $1 != -o ]]; do shift; done
touch "$2"
"""


@pytest.fixture
def build(tmp_path):
    """build(VARIABLE=...): setup.py build_op into tmp_path/out; its result, the kinds of libraries that are
    there then, and nvcc's words if called."""
    for name in ("bin/nvcc", "g++"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(COMPILER)
        (tmp_path / name).chmod(0o755)

    def run(**variables):
        own = {"CUDA_HOME": str(tmp_path), "CXX": str(tmp_path / "g++"), **variables}
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("EXLM_", "TORCH_CUDA"))}
        command = [sys.executable, "setup.py", "build_op", "--build-lib", str(tmp_path / "out")]
        done = subprocess.run(command, cwd=ROOT, env=kept | own, capture_output=True, text=True)
        built = {path.stem.split("_")[-1] for path in tmp_path.glob("out/fs_plugins/custom_ops/lib*")}
        words = tmp_path / "bin" / "nvcc.words"
        return done, built, words.read_text().splitlines() if words.exists() else None

    return run


def test_both_libraries_for_the_gpus_that_nvcc_knows(build, tmp_path):
    done, built, words = build(EXLM_NO_CUDA="1")
    assert done.returncode == 0 and words is None and built == {"cpu"}
    done, built, words = build()
    assert done.returncode == 0 and built == {"cpu", "cuda"}, done.stdout + done.stderr
    assert "-arch=all-major" in words
    assert words[words.index("-ccbin") + 1] == str(tmp_path / "g++")
    assert words[-1].endswith("csrc/dag_cuda.cu")


def test_architectures_as_torch_reads_them(build):
    _, _, words = build(TORCH_CUDA_ARCH_LIST="8.0;12.0+PTX")
    known = ("compute_80,code=sm_80", "compute_120,code=sm_120", "compute_120,code=compute_120")
    assert [word for word in words if "gencode" in word] == [f"-gencode=arch={one}" for one in known]


def test_a_broken_nvcc_costs_the_cuda_library_alone(build):
    build()
    done, built, _ = build(BROKEN="nvcc")
    assert done.returncode == 0 and built == {"cpu"}  # the older one does not stay
    done, _, _ = build(BROKEN="nvcc", EXLM_REQUIRE_OP="1")
    assert done.returncode == 1
