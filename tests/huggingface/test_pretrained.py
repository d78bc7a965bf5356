"""The models that the repository holds: as today's code would export them."""

import json
from pathlib import Path

import pytest

from fs_plugins.huggingface.export import export

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(path for path in (ROOT / "pretrained").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: path.name)
def test_it_comes_back_and_leaves_again(folder, tmp_path):
    """Settings, tokenizer, weights and code, to the bit, by way of fairseq's model. If not, export it anew:
    ``export(folder, other, half=True)``."""
    again = export(folder, tmp_path / folder.name, half=True)
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert sum((folder / file).stat().st_size for file in files) <= 6e6
    assert files == {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
    for file in files - {Path("README.md")}:  # the card has notes, too
        if file.suffix == ".json":
            assert json.loads((again / file).read_text()) == json.loads((folder / file).read_text())
        else:
            assert (again / file).read_bytes() == (folder / file).read_bytes(), file
