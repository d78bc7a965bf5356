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


def call(folder: Path, *words, profile="local", **more) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    kept |= {"CUDA_VISIBLE_DEVICES": "", "PYTHONSAFEPATH": "1"}  # for -m, which would import what is here
    asked = {"env": {**kept, **more}, "capture_output": True, "text": True}
    (folder / "tokenizers.py").write_text("raise SystemExit(3)")  # a stranger's, in the working directory
    return subprocess.run(command(*words, profile=profile), cwd=folder, **asked)


def finish(folder: Path, *words, **more) -> str:
    """What a call says that runs to its end."""
    result = call(folder, *words, **more)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout + result.stderr
