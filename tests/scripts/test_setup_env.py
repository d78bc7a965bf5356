"""setup_env.sh accepts the versions of Python that the package supports."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# An up-to-date environment whose Python says that it has another version.
PYTHON = """#!/usr/bin/env bash
case $1,$2 in
--version,*) echo "Python {version}" ;;
-c,"import hashlib"*) echo fingerprint ;;
*) exec "{real}" -c "import sys; sys.version_info = (*map(int, '{version}'.split('.')), 'final', 0); $2" ;;
esac
"""


@pytest.fixture
def set_up(tmp_path):
    def run(version):
        python = tmp_path / "bin" / "python"
        python.parent.mkdir()
        python.write_text(PYTHON.format(version=version, real=sys.executable))
        python.chmod(0o755)
        (tmp_path / "exlm-stamp").write_text("fingerprint\n")
        command = ["bash", str(ROOT / "scripts" / "setup_env.sh")]
        environment = {**os.environ, "EXLM_VENV": str(tmp_path)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    return run


@pytest.mark.parametrize("version", ["3.11.0", "3.12.9", "3.13.1"])
def test_supported_versions(set_up, version):
    result = set_up(version)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("version", ["2.7.18", "3.10.13", "3.14.2"])
def test_other_versions_are_refused(set_up, version):
    result = set_up(version)
    assert result.returncode == 1
    assert f"is Python {version}, ExLM needs Python 3.11 to 3.13: set PYTHON to one" in result.stderr
