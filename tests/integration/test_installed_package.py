"""A wheel built from the tree, installed elsewhere: fairseq finds the plugin, the plugin its compiled op."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration import commands
from tests.integration.commands import pretraining

pytestmark = pytest.mark.slow

PACKED = ["fs_plugins", "setup.py", "pyproject.toml", "LICENSE", "README.md"]
COMPILER = next((name for name in ("c++", "g++", "clang++") if shutil.which(name)), os.environ.get("CXX"))
WHERE = "from fs_plugins.custom_ops import library as l; print('op:', getattr(l.load('cpu'), '_name', None))"


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """A copy of the tree without what was built in it."""
    folder = tmp_path_factory.mktemp("clone")
    built = shutil.ignore_patterns("*.so", "*.dylib", "*.dll", "__pycache__")
    for name in PACKED:
        source = commands.ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=built)
        elif source.exists():
            shutil.copy(source, folder)
    return folder


@pytest.fixture(scope="module")
def installed(clone, tmp_path_factory) -> Path:
    """The folder that a wheel of the clone was installed to."""
    if COMPILER is None:
        pytest.skip("no C++ compiler (c++, g++, clang++ or CXX)")
    source, target = (tmp_path_factory.mktemp(name) for name in ("source", "installed"))
    shutil.copytree(clone, source, dirs_exist_ok=True)  # a build leaves files behind
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    environment = {**os.environ, "EXLM_NO_CUDA": "1", "EXLM_REQUIRE_OP": "1"}
    for command in (
        ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", target / "dist", source],
        ["install", "--no-deps", "--no-index", "--target", target, "--find-links", target / "dist", "exlm"],
    ):
        result = subprocess.run([*pip, *map(str, command)], env=environment, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout + result.stderr
    return target


def test_trains_from_any_folder(installed, corpus, tmp_path):
    """With the --user-dir that the README tells."""
    ask = "import fs_plugins, os; print(os.path.dirname(fs_plugins.__file__))"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    answer = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    user_dir = answer.stdout.strip()
    assert Path(user_dir) == installed / "fs_plugins"
    flags = pretraining(corpus, tmp_path / "save", "--user-dir", user_dir, "--max-update", 2)
    process = commands.start("train", *flags, then=WHERE, cwd=tmp_path, PYTHONPATH=str(installed))
    (run,) = commands.finish(process)
    assert len(run.updates) == 2
    assert run.lines[-1].startswith(f"op: {installed}/")


def test_the_clone_uses_the_op_of_the_installed_copy(installed, clone, corpus, tmp_path):
    flags = pretraining(corpus, tmp_path / "save", "--user-dir", "fs_plugins", "--max-update", 2)
    code = f"{WHERE}; import fs_plugins; print('plugin:', fs_plugins.__file__)"
    process = commands.start("train", *flags, then=code, cwd=clone, PYTHONPATH=str(installed))
    (run,) = commands.finish(process)
    assert len(run.updates) == 2
    assert run.lines[-1] == f"plugin: {clone}/fs_plugins/__init__.py"
    assert run.lines[-2].startswith(f"op: {installed}/")


def test_the_clone_trains_without_a_compiled_op(clone, corpus, tmp_path):
    """The plain PyTorch path serves, with one warning."""
    flags = pretraining(corpus, tmp_path / "save", "--user-dir", "fs_plugins", "--max-update", 2)
    process = commands.start("train", *flags, then=WHERE, cwd=clone, PYTHONPATH="")
    (run,) = commands.finish(process)
    assert len(run.updates) == 2 and run.values("nonfinite") == [0, 0]
    assert run.lines[-1] == "op: None"
    assert sum("No compiled DAG op" in line for line in run.lines) == 1
