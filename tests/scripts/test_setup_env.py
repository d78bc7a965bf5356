"""What setup_env.sh installs, in which order; it does so again only if what it depends on changes."""

import os
import subprocess
import sys

from lib.files import ROOT

from tests.support.builders import write_file

DEPENDS = ("scripts/setup_env.sh", "setup.py", "pyproject.toml", "constraints.txt")
DEPENDS += ("fs_plugins/custom_ops/csrc/dag.h",)


def test_the_order_of_the_installation_and_when_it_is_renewed(tmp_path):
    """pip's calls, by a clone's script with a Python that only writes these down."""
    for name in DEPENDS:
        write_file(tmp_path / name, (ROOT / name).read_text())
    log, python = tmp_path / "log", write_file(tmp_path / ".venv" / "bin" / "python", "")
    python.write_text(f'#!/bin/sh\n[ "$2" = pip ] || exec {sys.executable} "$@"\necho "$@" >>{log}\n')
    python.chmod(0o755)
    (tmp_path / "other" / "scripts").mkdir(parents=True)
    own = {**os.environ, "PYTHON": "false", "CDPATH": str(tmp_path / "other")}  # PYTHON is for a new .venv

    def setup(*arguments) -> list[str]:
        log.write_text("")
        subprocess.run(["bash", "scripts/setup_env.sh", *arguments], cwd=tmp_path, env=own, check=True)
        return [line.split("--no-input ")[1] for line in log.read_text().splitlines()]

    tools, torch, fairseq, rest, last = setup("test")
    assert torch == "install -c constraints.txt torch" and "numpy" in tools
    assert "--no-build-isolation --no-deps fairseq-fixed" in fairseq and rest.endswith("-e .[test]")
    assert last == "uninstall -y torchaudio"
    assert setup("test") == setup() == []  # the test's has the package
    for name in DEPENDS:
        with (tmp_path / name).open("a") as file:
            file.write("\n")
        assert len(setup()) == 5 and setup() == [], name
    relative = ["bash", "../scripts/setup_env.sh", "workflow"], {**own, "EXLM_VENV": "../.venv"}
    subprocess.run(relative[0], cwd=tmp_path / "other", env=relative[1], check=True)
    assert "-e .[workflow]" in log.read_text()
