"""The quickstart's molecules: what RDKit ships, its shares, and the table of a fine-tuning."""

import csv
import json
import math

import pytest
import quickstart_molecules as molecules
from rdkit import Chem
from rdkit.Chem import Crippen
from sklearn.metrics import r2_score


@pytest.fixture(scope="module")
def corpus(tmp_path_factory):
    output = tmp_path_factory.mktemp("quickstart")
    molecules.write_corpus(output)
    return output


def read(corpus, split):
    return (corpus / "corpus" / f"{split}.smi").read_text().splitlines()


def test_no_molecule_is_in_two_places(corpus):
    train, valid = set(read(corpus, "train")), set(read(corpus, "valid"))
    with (corpus / "property.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    labelled = {row["smiles"] for row in rows}
    assert len(labelled) == len(rows) and len(train) == len(read(corpus, "train"))
    assert not train & valid and not (train | valid) & labelled
    assert len(train) > 10_000 and len(valid) > 100
    assert all(sum(row["split"] == split for row in rows) > 200 for split in ("train", "valid", "test"))
    for row in rows[::200]:
        molecule = Chem.MolFromSmiles(row["smiles"])
        assert Chem.MolToSmiles(molecule) == row["smiles"]
        assert float(row["logP"]) == pytest.approx(Crippen.MolLogP(molecule), abs=1e-4)


def test_repeated_and_unreadable_molecules():
    found = molecules.canonical_molecules(["OCC", "CCO", "not", "C" * 51, "C" * 50])
    assert list(found) == ["CCO", "C" * 50]


def test_an_rdkit_without_the_files(tmp_path, monkeypatch):
    monkeypatch.setattr("rdkit.RDConfig.RDDataDir", str(tmp_path))
    with pytest.raises(SystemExit, match="this RDKit comes without .*prepare_smiles.py"):
        molecules.shipped_files()


def test_table(tmp_path, capsys):
    wanted = {"C": 1.0, "CC": 2.0, "CCC": 4.5}
    with (tmp_path / "property.csv").open("w") as file:
        file.write("smiles,logP,split\nO,1.0,train\nCO,3.0,train\nN,0.0,valid\n")
        file.writelines(f"{smiles},{value},test\n" for smiles, value in wanted.items())
    for name, errors in (("pretrained", [0.1, -0.2, 0.0]), ("scratch", [1.0, 1.0, -2.0])):
        folder = tmp_path / "finetune" / name / "seed-1"
        folder.mkdir(parents=True)
        rmse = math.sqrt(sum(e * e for e in errors) / 3)
        (folder / "metrics.json").write_text(json.dumps({"test": {"rmse": rmse, "mae": 0.5}}))
        rows = zip(wanted.items(), errors, strict=True)
        lines = [f"{i},{smiles},{value + error},{value}" for i, ((smiles, value), error) in enumerate(rows)]
        (folder / "test.predictions.csv").write_text("\n".join(["line,smiles,logP,logP (label)", *lines]))
    molecules.write_table(tmp_path)
    shown = capsys.readouterr().out
    assert shown == (tmp_path / "property.txt").read_text()
    rows = {line.split("  ")[1]: line.split()[-3:] for line in shown.splitlines()[3:5]}
    score = r2_score(list(wanted.values()), [1.1, 1.8, 4.5])
    assert rows["pre-trained"] == ["0.129", "0.500", f"{score:.3f}"]
    assert rows["from scratch"][0] == "1.414"
    assert shown.splitlines()[5].split()[-1] == f"{math.sqrt((1 + 0 + 2.5**2) / 3):.3f}"
    assert (tmp_path / "property.png").stat().st_size > 1000
