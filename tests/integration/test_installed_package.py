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

    def run(*words, **environment) -> str:
        command, environment = [sys.executable, *map(str, words)], {**os.environ, **environment}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run(command, cwd=tmp_path, env=environment, **pipes)
        assert done.returncode == 0, done.stdout
        return done.stdout

    pip = ("-m", "pip", "install", "--no-deps", "--no-index", "--no-build-isolation")
    run(*pip, "--target", installed, source, EXLM_NO_CUDA="1", EXLM_REQUIRE_OP="1")
    more = ("--user-dir", installed / "fs_plugins", "--max-update", 2)
    flags = commands.pretraining(corpus, tmp_path / "save", *more)
    code = f"from fairseq_cli.train import cli_main; cli_main(); {WHERE}"
    found = commands.Run(run("-c", code, *flags, PYTHONPATH=str(installed)))
    assert len(found.updates) == 2 and found.lines[-1].startswith(f"op: {installed}/")
