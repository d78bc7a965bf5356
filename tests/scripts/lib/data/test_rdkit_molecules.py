"""The molecules of the quickstart: those of RDKit, none for both pre-training and fine-tuning."""

import csv

import pytest
from lib.data import rdkit_molecules as molecules
from rdkit import Chem
from rdkit.Chem import Crippen

from tests.support.builders import write_file


def test_no_molecule_is_in_both_files(tmp_path, monkeypatch):
    """Of every 20th line of RDKit's two files."""
    count = {"NCI": 4_900, "WEHI": 10_000}
    for name, least in count.items():
        lines = getattr(molecules, name).read_text().splitlines()
        assert len(lines) >= least
        monkeypatch.setattr(molecules, name, write_file(tmp_path / name, "\n".join(lines[::20]) + "\n"))
    monkeypatch.setattr("sys.argv", ["molecules", str(tmp_path / "pretrain.smi"), str(tmp_path / "logP.csv")])
    molecules.main()
    pretraining = (tmp_path / "pretrain.smi").read_text().splitlines()
    with (tmp_path / "logP.csv").open(newline="") as file:
        labelled = {row["smiles"]: float(row["logP"]) for row in csv.DictReader(file)}
    assert len(set(pretraining)) == len(pretraining) > 500 and len(labelled) > 50
    assert not labelled.keys() & set(pretraining)
    for smiles in list(labelled)[::10]:
        molecule = Chem.MolFromSmiles(smiles)
        assert Chem.MolToSmiles(molecule) == smiles
        assert labelled[smiles] == pytest.approx(Crippen.MolLogP(molecule), abs=1e-4)


def test_repeated_unreadable_and_large_molecules(tmp_path):
    path = tmp_path / "some.csv"
    path.write_text('"OCC","a"\n"CCO","b"\n\n"not","c"\n' + f'"{"C" * 51}","d"\n{"C" * 50} e\n')
    assert list(molecules.read_molecules(path)) == ["CCO", "C" * 50]
