"""The models that the repository holds: as today's code would export them, and of use without fairseq."""

import json
from pathlib import Path

import pytest
from rdkit import Chem

from fs_plugins.huggingface.export import export
from fs_plugins.inference import load as load_model

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = sorted(path for path in (ROOT / "pretrained").iterdir() if path.is_dir())
ASPIRIN = "CC(=O)Oc1ccccc1C(=O)O"


@pytest.fixture(params=FOLDERS, ids=lambda path: path.name)
def folder(request) -> Path:
    return request.param


def test_it_comes_back_and_leaves_again(folder, tmp_path):
    """Settings, tokenizer, weights and code, to the bit, by way of fairseq's model."""
    again = export(folder, tmp_path / "again", half=True)
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert sum((folder / file).stat().st_size for file in files) <= 6e6
    assert files == {path.relative_to(again) for path in again.rglob("*") if path.is_file()}
    for file in files - {Path("README.md")}:  # the card tells of a training
        if file.suffix == ".json":
            assert json.loads((again / file).read_text()) == json.loads((folder / file).read_text())
        else:
            assert (again / file).read_bytes() == (folder / file).read_bytes(), file


def test_fills_a_molecule(folder, load, transformers):
    tokenizer, model = load("AutoTokenizer", folder), load("AutoModelForMaskedLM", folder)
    fill = transformers.pipeline("fill-mask", model=model, tokenizer=tokenizer)
    symbols = tokenizer.tokenize(ASPIRIN)
    for i in range(len(symbols)):
        best = fill("".join([*symbols[:i], "<mask>", *symbols[i + 1 :]]))[0]["sequence"]
        assert Chem.MolFromSmiles(best) is not None, best
    if folder.name.startswith("exlm"):  # the best decoding of masks in a ring is a molecule
        filled = load_model(folder, device="cpu").fill("CC(=O)Oc1<mask><mask>ccc1C(<mask>O)O")
        assert len(filled.masks) == 3 and Chem.MolFromSmiles(filled.text) is not None, filled.text
