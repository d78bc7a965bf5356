"""Calls of the workflow."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
WORKFLOW = ROOT / "scripts" / "workflow"


def command(*words, profile="local") -> list[str]:
    snakemake = [sys.executable, "-m", "snakemake", "-s", WORKFLOW / "Snakefile"]
    snakemake += ["--profile", WORKFLOW / "profiles" / profile]
    return [str(word) for word in (*snakemake, *words)]


def call(tmp_path, *words) -> subprocess.CompletedProcess:
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONPATH", None)
    (tmp_path / "tokenizers.py").write_text("raise SystemExit(3)")  # a stranger's, in the working directory
    return subprocess.run(command(*words), cwd=tmp_path, env=environment, capture_output=True, text=True)


def finish(folder: Path, *words) -> str:
    """What a call says that runs to its end."""
    result = call(folder, *words)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr


def complete(folder: Path, *words) -> str:
    """The report of a call that runs to its end."""
    finish(folder, *words)
    return (folder / "out/report.md").read_text()
