"""The code of README and docs/huggingface.md, run as it stands."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.huggingface.conftest import OUTSIDER

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "huggingface.md").read_text(encoding="utf-8")


def blocks(text: str, title: str) -> list[str]:
    """The Python code of the section of that title."""
    section = re.split(r"^#+ ", text, flags=re.MULTILINE)
    [found] = [part for part in section if part.startswith(title + "\n")]
    return re.findall(r"^```python\n(.*?)^```", found, re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def place(folders, checkpoints, corpus, tmp_path_factory) -> Path:
    """A working directory with the folders that the documentation names."""
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(folders["exlm"], place / "exported" / "exlm")
    (place / "pretrained").symlink_to(ROOT / "pretrained")
    shutil.copytree(corpus, place / "data-bin" / "text")
    (place / "checkpoints" / "exlm").mkdir(parents=True)
    shutil.copy(checkpoints["exlm"], place / "checkpoints" / "exlm" / "checkpoint_last.pt")
    return place


@pytest.fixture
def run(place, hf_home):
    """run(code) where neither fairseq nor this package can be imported."""

    def run(code: str) -> None:
        start = f"import sys; sys.path.insert(0, {str(OUTSIDER.parent)!r}); import outsider\n"
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(hf_home), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-c", start + code]
        done = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr

    return run


def test_the_readmes_first_lines(transformers, run):
    [code] = blocks((ROOT / "README.md").read_text(encoding="utf-8"), "Try a trained model")
    aspirin = 'fill("CC(=O)Oc1ccccc1C(=<mask>)O")[0]["sequence"] == "CC(=O)Oc1ccccc1C(=O)O"'
    run(f"{code}\nassert vectors.shape == (1, 5, 192) and {aspirin}\n")


def test_loading(transformers, needs, run):
    """All of the section in one process, as one reads it."""
    for name in ("accelerate", "sentence_transformers"):
        needs(name)
    code = blocks(PAGE, "Loading")
    assert len(code) == 3
    run("\n".join(code) + "\nassert outputs.links.shape == (1, 9, 9)\n")


def test_hub_interface(place, monkeypatch):
    monkeypatch.chdir(place)
    [code] = blocks(PAGE, "fairseq's hub interface")
    names = {}
    exec(code, names)
    assert names["exlm"].extract_features(names["tokens"]).shape == (1, 4, 32)
