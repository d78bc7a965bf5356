"""setup_env.sh removes an environment only if it made it, and renews it when what it depends on changes."""

import os
import re
import shutil
import subprocess
import sys

import pytest
from lib.files import ROOT

from tests.support.builders import write_file

DEPENDS = ("scripts/setup_env.sh", "setup.py", "pyproject.toml", "constraints.txt")
DEPENDS += ("fs_plugins/custom_ops/sources.py", "fs_plugins/custom_ops/csrc/dag.h")


@pytest.fixture
def setup(tmp_path):
    """setup(**environment) -> a call in a clone, with a Python that makes no environments."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "setup_env.sh", tmp_path / "scripts")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\n[ "$2" = venv ] && exit 1\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)

    def call(**environment) -> str:
        environment = {**os.environ, "PYTHON": str(python), **environment}
        command = ["bash", "scripts/setup_env.sh"]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 1
        return done.stderr

    return call


@pytest.mark.parametrize("kind", ["file", "link to nothing", "venv"])
def test_an_environment_of_others_stays(kind, setup, tmp_path):
    venv = tmp_path / ".venv"
    if kind == "file":
        venv.write_text("mine")
    elif kind == "link to nothing":
        venv.symlink_to(tmp_path / "elsewhere")
    else:  # without pip, as uv makes them
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    before = sorted(map(str, tmp_path.rglob("*")))
    assert f"{venv} was not made by this script" in setup()
    assert sorted(map(str, tmp_path.rglob("*"))) == before
    if kind == "venv":
        assert "has no pip" in setup(EXLM_VENV=".venv")


@pytest.mark.parametrize("mark", ["exlm-stamp", "exlm-unfinished"])
def test_our_own_is_made_anew_where_it_cannot_be_used(mark, setup, tmp_path):
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / mark).touch()
    (tmp_path / ".venv" / "rest").touch()
    for _ in range(2):  # the second finds what the first left
        assert "-m venv .venv' failed" in setup()
        assert [path.name for path in (tmp_path / ".venv").iterdir()] == ["exlm-unfinished"]


def test_an_environment_is_of_the_files_that_it_was_made_of(tmp_path):
    files = {tmp_path / name: (ROOT / name).read_text() for name in DEPENDS}
    for path, content in files.items():
        write_file(path, content)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    stamped = re.search(r"^installed\(\).*?^}", files[tmp_path / DEPENDS[0]], re.DOTALL | re.MULTILINE)[0]

    def bash(*words) -> str:
        return subprocess.check_output(["bash", *words], cwd=tmp_path, text=True)

    stamp = bash("-c", f"venv=.venv\n{stamped}\ninstalled package")
    write_file(tmp_path / ".venv" / "exlm-stamp", stamp)
    assert bash("scripts/setup_env.sh") == ""  # up to date
    for path, content in files.items():
        path.write_text(content + "\n")
        assert bash("-c", f"venv=.venv\n{stamped}\ninstalled package") != stamp, path
        path.write_text(content)
