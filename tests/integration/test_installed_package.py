"""A wheel built from the tree, installed elsewhere: fairseq finds the plugin, the plugin its compiled op."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.integration import commands

COMPILER = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), os.environ.get("CXX"))
WHERE = "from fs_plugins.custom_ops import library as l; print('op:', getattr(l.load('cpu'), '_name', None))"


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="no C++ compiler (c++, g++, clang++ or CXX)")
def test_trains_from_any_folder(corpus, tmp_path):
    source, installed = tmp_path / "source", tmp_path / "installed"
    built = shutil.ignore_patterns("*.so", "*.dylib", "*.dll", "__pycache__")
    shutil.copytree(commands.ROOT / "fs_plugins", source / "fs_plugins", ignore=built)
    for name in ("setup.py", "pyproject.toml", "LICENSE", "README.md"):
        shutil.copy(commands.ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    alone, dist = ["--no-deps", "--no-index"], str(tmp_path / "dist")
    for command in (
        [*pip, "wheel", *alone, "--no-build-isolation", "-w", dist, str(source)],
        [*pip, "install", *alone, "--target", str(installed), "--find-links", dist, "exlm"],
    ):
        environment = {**os.environ, "EXLM_NO_CUDA": "1", "EXLM_REQUIRE_OP": "1"}
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr

    more = ("--user-dir", installed / "fs_plugins", "--max-update", 2)
    flags = commands.pretraining(corpus, tmp_path / "save", *more)
    process = commands.start("train", *flags, then=WHERE, cwd=tmp_path, PYTHONPATH=str(installed))
    (run,) = commands.finish(process)
    assert len(run.updates) == 2
    assert run.lines[-1].startswith(f"op: {installed}/")
