"""What the scripts of MoleculeNet say of users' mistakes and damaged files."""

import gzip
import json
import os
import pickle

import baseline_moleculenet
import numpy as np
import prepare_moleculenet
import prepare_smiles
import pytest
from recipes.moleculenet import plan, reading, streaming
from recipes.moleculenet.evaluate import rows_sha256

from fs_plugins.data.property_datasets import read_labels
from fs_plugins.data.smiles_tokens import tokenize
from tests.lmdb_files import write_lmdb

MOLECULES = [f"{'C' * n}{end}" for n in range(1, 11) for end in ("O", "N", "Cl")]


@pytest.fixture
def dictionary(tmp_path):
    path = tmp_path / "dict.txt"
    words = sorted({token for smiles in MOLECULES for token in tokenize(smiles)})
    path.write_text("".join(f"{word} 5\n" for word in words))
    return path


def write(path, rows, header="smiles,label"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


def prepare(source, dictionary, output, *flags):
    argv = ["mine", source, output, "--dict", dictionary, "--split", "random", *flags]
    prepare_moleculenet.main(list(map(str, argv)))
    return json.loads((output / "molecules.json").read_text())


def rows_of(molecules=MOLECULES):
    return [f"{smiles},{i % 2}" for i, smiles in enumerate(molecules)]


@pytest.mark.parametrize(
    ("row", "line", "what"),
    [('"CCO"x,1', 4, "expected after"), ('"CCO,1', 4, "unexpected end of data")],
)
def test_lines_of_wrong_quotes(row, line, what, tmp_path):
    path = write(tmp_path / "a.csv", ["CO,1", '"CN",0', row, "CCC,0"])
    with pytest.raises(reading.InputError, match=rf"a.csv, line {line}: .*{what}.*quotation mark"):
        list(reading.csv_rows(path))


@pytest.mark.parametrize("name", ["a.csv.gz", "a.smi.gz"])
def test_broken_gzip(name, tmp_path):
    packed = gzip.compress(("smiles\n" + "\n".join(MOLECULES * 50)).encode())
    for content in (packed[: len(packed) // 2], packed[:30] + b"\xff" * 20 + packed[50:], b"smiles\nC\n"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(reading.InputError, match="broken or cut short gzip"):
            list(streaming.smiles_of(tmp_path / name, "smiles"))


def test_other_encodings_are_told_by_their_byte(tmp_path):
    (tmp_path / "a.csv").write_bytes("name,smiles\né,CCO\n".encode("latin-1"))
    with pytest.raises(reading.InputError, match="not in UTF-8 .byte 0xe9.: save it as UTF-8"):
        list(streaming.smiles_of(tmp_path / "a.csv", "smiles"))


def test_a_comma_too_many_is_not_read_as_another_molecule(tmp_path):
    path = write(tmp_path / "a.csv", ["x,C,CCO", "x, y,C,CCO", "x,C,CCN,"], header="name,formula,smiles")
    assert list(streaming.smiles_of(path, "smiles")) == ["CCO", "x, y,C,CCO", "CCN"]
    path = write(tmp_path / "b.csv", ["CCO,x, y"], header="smiles,name")
    assert list(streaming.smiles_of(path, "smiles")) == ["CCO"]  # nothing before it that could move it


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--label-columns", "label", "label"], "'label' more than once"),
        (["--label-columns", "empty", "--kind", "regression"], "has no label at all"),
        (["--label-columns", "empty"], "of one class only, or none"),
        (["--label-columns", "name"], "line 2, name: the label 'x' is not 0, 1 .*--label-columns"),
        (["--label-columns", "label", "--max-unknown", "nan"], "--max-unknown nan"),
    ],
)
def test_refused(flags, message, dictionary, tmp_path):
    source = write(tmp_path / "a.csv", [f"{row},,x" for row in rows_of()], "smiles,label,empty,name")
    with pytest.raises(SystemExit, match=message):
        prepare(source, dictionary, tmp_path / "out", *flags)
    assert not (tmp_path / "out").exists()


def test_molecules_that_occur_twice_are_told(dictionary, tmp_path):
    parts = ["train"] * 20 + ["valid"] * 5 + ["test"] * 5
    rows = [f"{row},{part}" for row, part in zip(rows_of(), parts, strict=True)]
    rows += ["OC,1,test", "OCC,1,train", "NC,0,valid"]  # CO, CCO and CN, which are in train
    source = write(tmp_path / "a.csv", rows, "smiles,label,part")
    for form in ("canonical", "as-given"):
        flags = ["--split", "given", "--split-column", "part", "--label-columns", "label", "--smiles", form]
        remarks = prepare(source, dictionary, tmp_path / form, *flags)["remarks"]
        (remark,) = [r for r in remarks if "more than once" in r]
        assert (
            remark.startswith("3 molecules occur") and "2 of them in more than one part, 1 in both" in remark
        )


class Hostile:
    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return os.mkdir, (str(self.target),)


def test_a_hostile_first_entry_costs_no_other(dictionary, tmp_path):
    folder = tmp_path / "lmdb"
    folder.mkdir()
    for part in ("train", "valid", "test"):
        values = [pickle.dumps({"smi": s, "target": [i % 2]}) for i, s in enumerate(MOLECULES)]
        if part == "train":
            values[0] = pickle.dumps(Hostile(tmp_path / "ran"))
        write_lmdb(folder / f"{part}.lmdb", values)
    argv = ["mine", folder, tmp_path / "out", "--dict", dictionary]
    prepare_moleculenet.main(list(map(str, argv)))
    description = json.loads((tmp_path / "out/molecules.json").read_text())
    assert description["sizes"]["train"]["molecules"] == len(MOLECULES) - 1
    assert description["skipped"] == 1 and description["names"] == ["property-1"]
    assert "mkdir" in (tmp_path / "out/report.tsv").read_text()
    assert not (tmp_path / "ran").exists()


def test_no_best_epoch_is_said_before_training(dictionary, tmp_path):
    parts = ["train"] * 20 + ["valid", "test"] * 5
    rows = [f"{row},{part}" for row, part in zip(rows_of(), parts, strict=True)]  # valid has class 0 only
    source = write(tmp_path / "a.csv", rows, "smiles,label,part")
    flags = ["--split", "given", "--split-column", "part", "--label-columns", "label"]
    remarks = prepare(source, dictionary, tmp_path / "out", *flags)["remarks"]
    assert any(remark.startswith("valid: 1 of 1") for remark in remarks)
    with pytest.raises(reading.InputError, match="both classes in valid .*no best epoch"):
        plan.plan(tmp_path / "none.pt", tmp_path / "out")


@pytest.mark.parametrize("content", [b"", b"no array", None])
def test_damaged_labels(content, tmp_path):
    path = tmp_path / "test.labels.npy"
    np.save(path, np.zeros((8, 1), np.float32))
    path.write_bytes(path.read_bytes()[:-9] if content is None else content)
    with pytest.raises(ValueError, match="test.labels.npy is damaged .*prepare the data again"):
        read_labels(path, 8, 1, True)


def test_forests_of_other_settings_or_data_are_not_taken_for_these(dictionary, tmp_path, capsys):
    source = write(tmp_path / "a.csv", rows_of())
    prepare(source, dictionary, tmp_path / "data")
    run = [str(tmp_path / "data"), str(tmp_path / "runs"), "--seeds", "1", "--trees"]
    baseline_moleculenet.main([*run, "2"])
    baseline_moleculenet.main([*run, "2"])
    assert "finished before" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="trees 2, now 3"):
        baseline_moleculenet.main([*run, "3"])
    prepare(source, dictionary, tmp_path / "other", "--seed", "7")
    with pytest.raises(SystemExit, match="train_rows_sha256"):
        baseline_moleculenet.main([str(tmp_path / "other"), *run[1:], "2"])


def test_rows_are_told_apart_by_line_and_label():
    labels = np.array([[0.0], [np.nan]], np.float32)
    one = rows_sha256([["2", "C"], ["3", "CC"]], labels)
    assert one == rows_sha256([["2", "[CH4]"], ["3", "CC"]], labels.copy())
    assert one != rows_sha256([["2", "C"], ["4", "CC"]], labels)
    assert one != rows_sha256([["2", "C"], ["3", "CC"]], np.nan_to_num(labels))


@pytest.mark.parametrize("where", ["file", "file/below"])
def test_a_folder_that_cannot_be_made(where, tmp_path):
    (tmp_path / "file").write_text("here")
    (tmp_path / "a.txt").write_text("CCO\n" * 5)
    with pytest.raises(SystemExit, match="cannot make the folder .*file"):
        prepare_smiles.main([str(tmp_path / where), "--train", str(tmp_path / "a.txt"), "--workers", "1"])


def test_an_open_quote_swallows_no_rows_of_the_corpus(tmp_path):
    rows = [f"{i},{smiles}" for i, smiles in enumerate(MOLECULES)]
    source = write(tmp_path / "a.csv", [*rows[:3], '"x,CCO', *rows[3:]], "id,smiles")
    with pytest.raises(SystemExit, match="a.csv, line 5: .*quotation mark"):
        prepare_smiles.main([str(tmp_path / "out"), "--train", str(source), "--workers", "1"])
