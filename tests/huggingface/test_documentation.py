"""The code of docs/huggingface.md, run as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WITHOUT_PACKAGES = """
import sys
sys.modules |= dict.fromkeys(("fairseq", "fs_plugins", "rdkit", "torchaudio"))  # are not to be found
"""
SHAPES = """
assert vectors.shape == (1, 5, 192)
assert fill("CC(=O)Oc1ccccc1C(=<mask>)O")[0]["sequence"] == "CC(=O)Oc1ccccc1C(=O)O"
assert outputs.links.shape == (1, 9, 9)
"""


@pytest.mark.slow
def test_models_are_loaded_and_used_without_fairseq(folders, transformers, tmp_path):
    (tmp_path / "exported").symlink_to(folders["exlm"].parent)
    (tmp_path / "pretrained").symlink_to(ROOT / "pretrained")
    page = (ROOT / "docs/huggingface.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(code) == 2
    command = [sys.executable, "-c", "\n".join([WITHOUT_PACKAGES, *code, SHAPES])]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
