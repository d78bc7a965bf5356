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
        lines = [*lines[::20], "OCC a", "CCO b", "", "not c", "C" * 51, "C" * 50]
        monkeypatch.setattr(molecules, name, write_file(tmp_path / name, "\n".join(lines) + "\n"))
    monkeypatch.setattr("sys.argv", ["molecules", str(tmp_path / "pretrain.smi"), str(tmp_path / "logP.csv")])
    molecules.main()
    pretraining = (tmp_path / "pretrain.smi").read_text().splitlines()
    with (tmp_path / "logP.csv").open(newline="") as file:
        labelled = {row["smiles"]: float(row["logP"]) for row in csv.DictReader(file)}
    assert len(set(pretraining)) == len(pretraining) > 500 and len(labelled) > 50
    both = [*labelled, *pretraining]  # those that are repeated once, none that are unreadable or large
    assert not labelled.keys() & set(pretraining) and both.count("CCO") == both.count("C" * 50) == 1
    assert not {"OCC", "not", "C" * 51} & {*both}
    for smiles in list(labelled)[::10]:
        molecule = Chem.MolFromSmiles(smiles)
        assert Chem.MolToSmiles(molecule) == smiles
        assert labelled[smiles] == pytest.approx(Crippen.MolLogP(molecule), abs=1e-4)
