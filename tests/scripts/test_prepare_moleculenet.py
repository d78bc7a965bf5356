"""From molecules to a folder that the task reads; what is said of bad input."""

import argparse
import json
import math
import pickle

import numpy as np
import prepare_moleculenet
import pytest
import torch
from fairseq.data import Dictionary, data_utils
from lib.checkpoints import EMBEDDINGS

from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.models import checkpoint
from tests.builders import write_lmdb

CARBONS = [f"{'C' * n}{end}" for n in range(1, 9) for end in ("O", "N", "Cl")]  # 24, no rings
RINGS = ["c1ccccc1", "C1CCCCC1", "C1CCNCC1", "c1ccncc1", "C1CC1", "C1CCC1"]
MOLECULES = CARBONS + RINGS


@pytest.fixture
def dictionary(tmp_path):
    words = sorted({token for smiles in MOLECULES for token in tokenize(smiles)})
    path = tmp_path / "dict.txt"
    path.write_text("".join(f"{word} 5\n" for word in words))
    return path


@pytest.fixture
def source(tmp_path):
    def write(rows, header="smiles,label", name="data.csv"):
        path = tmp_path / name
        path.write_text("\n".join([header, *rows]) + "\n")
        return path

    return write


def rows_of(molecules=MOLECULES):
    return [f"{smiles},{i % 2}" for i, smiles in enumerate(molecules)]


def prepare(source, dictionary, output, *flags, dataset="mine"):
    argv = [dataset, source, output, "--dictionary", dictionary, *flags]
    assert prepare_moleculenet.main(list(map(str, argv))) == 0
    return json.loads((output / "molecules.json").read_text())


@pytest.fixture
def refusal(refused):
    def call(source, dictionary, output, *flags, dataset="mine") -> str:
        argv = [dataset, source, output, "--dictionary", dictionary, *flags]
        return refused(prepare_moleculenet.main, *argv)

    return call


def table(path):
    return [line.split("\t") for line in path.read_text().splitlines()][1:]


def read(folder, split):
    """(line, SMILES, tokens, labels) of each molecule, from the binarised files."""
    words = Dictionary.load(str(folder / "dict.txt"))
    tokens = data_utils.load_indexed_dataset(str(folder / split), words)
    labels = np.load(folder / f"{split}.labels.npy")
    rows = table(folder / f"{split}.tsv")
    assert len(tokens) == len(labels) == len(rows)
    texts = ["".join(words[i] for i in item[:-1]) for item in tokens]
    assert all(item[-1] == words.eos() for item in tokens)
    return [(int(n), s, t, y) for (n, s), t, y in zip(rows, texts, labels, strict=True)]


def test_every_molecule_has_its_label(source, dictionary, tmp_path, capsys):
    out = tmp_path / "out"
    description = prepare(source(rows_of()), dictionary, out)
    found = [row for split in ("train", "valid", "test") for row in read(out, split)]
    assert sorted(line for line, *_ in found) == list(range(2, 32))
    for line, smiles, text, label in found:
        assert smiles == text == MOLECULES[line - 2]  # canonical already
        assert label.tolist() == [(line - 2) % 2]
    sizes = {split: size["molecules"] for split, size in description["sizes"].items()}
    assert sizes == {"train": 24, "valid": 3, "test": 3}
    assert description["sizes"]["train"]["longest"] == 11  # eight carbons, one more, <s> and </s>
    assert "24/3/3 molecules" in capsys.readouterr().out
    assert (out / "report.tsv").read_text().count("\n") == 1


def test_bad_rows_are_listed_with_their_lines_and_lose_no_good_one(source, dictionary, tmp_path, capsys):
    rows = rows_of()
    rows[3:3] = ["", "C(,1", ",0", "CCO", "C(C)(C)(C)(C)C,1", "C%C,0"]
    out = tmp_path / "out"
    assert prepare(source(rows), dictionary, out)["skipped"] == 6
    assert sum(len(read(out, split)) for split in ("train", "valid", "test")) == len(MOLECULES)
    report = {int(line): (status, reason) for line, _, status, reason, _ in table(out / "report.tsv")}
    assert {status for status, _ in report.values()} == {"skipped"}
    reasons = [report[line][1] for line in range(5, 11)]
    for reason, wanted in zip(
        reasons,
        [
            "empty line",
            "not a SMILES",
            "empty SMILES",
            "1 cells, but the header has 2",
            "valence",
            "not a SMILES",
        ],
        strict=True,
    ):
        assert wanted in reason
    assert "6 rows skipped" in capsys.readouterr().out


def test_missing_labels_are_nan(source, dictionary, tmp_path):
    rows = [f"{smiles},{i % 2},{'' if i % 3 else 1}" for i, smiles in enumerate(MOLECULES)]
    out = tmp_path / "out"
    description = prepare(source(rows, "smiles,a,b"), dictionary, out, "--split", "random")
    assert description["names"] == ["a", "b"]
    for line, _, _, (a, b) in read(out, "train"):
        assert a == (line - 2) % 2
        assert math.isnan(b) if (line - 2) % 3 else b == 1
    assert any("train: 1 of 2 properties lack labels of both classes" in r for r in description["remarks"])


def test_unknown_tokens_are_kept_named_and_counted(source, dictionary, tmp_path, capsys, refusal):
    rows = [*rows_of(), "CC[Si],1", "[Si]CC[Se],0"]
    out = tmp_path / "out"
    flags = ("--split", "random", "--max-unknown", "0.1")
    description = prepare(source(rows), dictionary, out, *flags)
    assert description["unknown_tokens"] == {"[Si]": 2, "[Se]": 1}
    assert sum(size["molecules"] for size in description["sizes"].values()) == 32
    assert "2 unknown tokens became <unk>: [Si] (2), [Se] (1)" in capsys.readouterr().out
    assert {row[2] for row in table(out / "report.tsv")} == {"kept"}
    skipping = prepare(
        source(rows), dictionary, tmp_path / "skip", "--max-unknown", "0.1", "--unknown", "skip"
    )
    assert skipping["skipped"] == 2 and skipping["unknown_tokens"] == {}
    message = refusal(source(rows), dictionary, tmp_path / "none")
    assert "2 of 32 molecules have tokens missing from the dictionary: [Si] (2), [Se] (1)" in message
    assert not (tmp_path / "none").exists()


def test_smiles_are_canonical_or_as_given(source, dictionary, tmp_path):
    rows = rows_of()
    rows[1] = "OCC,1"
    for flag, wanted in (("canonical", "CCO"), ("as-given", "OCC")):
        out = tmp_path / flag
        assert prepare(source(rows), dictionary, out, "--smiles", flag)["canonical"] == (flag == "canonical")
        found = {line: smiles for s in ("train", "valid", "test") for line, smiles, *_ in read(out, s)}
        assert found[3] == wanted


def test_regression_keeps_units_and_tells_the_scale(source, dictionary, tmp_path):
    rows = [f"{smiles},{1.5 * i - 7}" for i, smiles in enumerate(MOLECULES)]
    out = tmp_path / "out"
    description = prepare(source(rows), dictionary, out, "--kind", "regression")
    train = np.array([label for *_, label in read(out, "train")], dtype=np.float64)
    assert description["mean"] == pytest.approx([train.mean()])
    assert description["std"] == pytest.approx([train.std()])
    assert {float(y[0]) for *_, y in read(out, "test")} <= {1.5 * i - 7 for i in range(30)}


def test_given_split(source, dictionary, tmp_path, refusal):
    parts = ["Train"] * 20 + ["Valid"] * 5 + ["Test"] * 5
    rows = [f"{row},{part}" for row, part in zip(rows_of(), parts, strict=True)]
    path = source(rows, "smiles,label,Model")
    out = tmp_path / "out"
    prepare(path, dictionary, out, "--split", "given", "--split-column", "Model")
    assert [line for line, *_ in read(out, "valid")] == [22, 23, 24, 25, 26]
    assert "go together" in refusal(path, dictionary, tmp_path / "b", "--split", "given")


@pytest.mark.parametrize(
    ("rows", "header", "flags", "message"),
    [
        (["CCO"], "smiles", (), "no column of labels"),
        (["CCO,2"], "smiles,label", (), "line 2, label: the label '2' is not 0, 1 or empty"),
        (["CCO,1", "CCN,yes"], "smiles,label", (), "line 3, label: the label 'yes' is not"),
        (["CCO,inf"], "smiles,label", ("--kind", "regression"), "the label 'inf' is not a number"),
        ([f"{s},1" for s in MOLECULES], "smiles,label", (), "labels of one class only"),
        (["C(,1", "D,0"], "smiles,label", (), "no molecule could be read; the first, line 2"),
        (rows_of(CARBONS), "smiles,label", (), "leaves train empty: there are 1 scaffolds"),
    ],
)
def test_what_is_refused(source, dictionary, tmp_path, rows, header, flags, message, refusal):
    assert message in refusal(source(rows, header), dictionary, tmp_path / "out", *flags)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", "dict.txt"]  # nothing is left behind


def test_unimol_lmdbs(dictionary, tmp_path, refusal):
    folder = tmp_path / "unimol"
    folder.mkdir()
    values = [
        pickle.dumps({"smi": s, "target": np.array([i % 2, -1 if i % 3 else 1])})
        for i, s in enumerate(MOLECULES)
    ]
    write_lmdb(folder / "train.lmdb", [*values[:20], b"broken"])
    write_lmdb(folder / "valid.lmdb", values[20:25])
    write_lmdb(folder / "test.lmdb", values[25:])
    description = prepare(folder, dictionary, tmp_path / "out", "--label-columns", "a", "b")
    assert description["split"]["kind"] == "given" and description["skipped"] == 1
    for split, first in (("train", 0), ("valid", 20), ("test", 25)):
        for line, smiles, _, (a, b) in read(tmp_path / "out", split):
            i = first + line - 1
            assert smiles == MOLECULES[i] and a == i % 2
            assert math.isnan(b) if i % 3 else b == 1
    assert "LMDBs are split" in refusal(folder, dictionary, tmp_path / "x", "--split", "random")
    assert "2 labels, but 1 are" in refusal(folder, dictionary, tmp_path / "x", "--label-columns", "a")
    (folder / "test.lmdb").unlink()
    assert "test.lmdb" in refusal(folder, dictionary, tmp_path / "x")


def test_the_dictionary_is_the_checkpoints(source, dictionary, tmp_path, monkeypatch, refusal):
    words = Dictionary.load(str(dictionary))
    rows = torch.zeros(len(words) + 1, 4)
    state = {"model": {EMBEDDINGS[0]: rows}}
    cfg = argparse.Namespace(
        model=argparse.Namespace(arch="exlm_tiny", max_positions=6),
        task=argparse.Namespace(data=str(tmp_path / "bin")),
    )
    monkeypatch.setattr(checkpoint, "read_state", lambda path: (state, cfg))
    flags = ("--checkpoint", tmp_path / "c.pt")
    said = prepare(source(rows_of()), dictionary, tmp_path / "one", *flags)["remarks"]
    assert said == [
        "the longest molecule has 11 tokens, the checkpoint 6 positions: "
        "fine-tuning truncates longer molecules"
    ]
    state["model"][EMBEDDINGS[0]] = rows[1:]
    message = refusal(source(rows_of()), dictionary, tmp_path / "two", *flags)
    assert f"has {len(words) + 1} entries (with <mask>), the dictionary of the checkpoint" in message
    assert f"c.pt {len(words)}: use the dict.txt of its pre-training" in message


def test_a_mistyped_set_is_named(tmp_path, dictionary, source, refusal):
    path = source([f"{row},aspirin" for row in rows_of()], "smiles,p_np,name")
    message = refusal(path, dictionary, tmp_path / "out", dataset="bbpb")
    assert "the label 'aspirin' is not" in message and "'bbpb' is not one of bace, bbbp, tox21" in message


def test_known_sets_have_their_columns(tmp_path, dictionary, source):
    path = source([f"T{i},{row}" for i, row in enumerate(rows_of())], "mol_id,smiles,NR-AR")
    description = prepare(path, dictionary, tmp_path / "out", dataset="tox21")
    assert description["names"] == ["NR-AR"] and description["allow_valence"] is True


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--label-columns", "label", "label"], "'label' more than once"),
        (["--label-columns", "empty", "--kind", "regression"], "has no label at all"),
        (["--label-columns", "empty"], "of one class only in the training set, or none"),
        (["--label-columns", "name"], "--label-columns names the labels"),
        (["--label-columns", "label", "--max-unknown", "nan"], "--max-unknown nan"),
        (["--smiles-column", "mol"], "no column 'mol'"),
    ],
)
def test_columns_that_do_not_fit(flags, message, source, dictionary, tmp_path, refusal):
    path = source([f"{row},,x" for row in rows_of()], "smiles,label,empty,name")
    assert message in refusal(path, dictionary, tmp_path / "out", "--split", "random", *flags)
    assert not (tmp_path / "out").exists()


def test_repeated_molecules_are_reported(source, dictionary, tmp_path):
    parts = ["train"] * 20 + ["valid"] * 5 + ["test"] * 5
    rows = [f"{row},{part}" for row, part in zip(rows_of(), parts, strict=True)]
    rows += ["OC,1,test", "OCC,1,train", "NC,0,valid"]  # CO, CCO and CN, which are in train
    path = source(rows, "smiles,label,part")
    for form in ("canonical", "as-given"):
        flags = ["--split", "given", "--split-column", "part", "--label-columns", "label", "--smiles", form]
        remarks = prepare(path, dictionary, tmp_path / form, *flags)["remarks"]
        (remark,) = [r for r in remarks if "more than once" in r]
        assert remark.startswith("3 molecules occur")
        assert "2 of them in more than one split, 1 in both" in remark


def test_one_class_in_valid_is_reported(source, dictionary, tmp_path):
    parts = ["train"] * 20 + ["valid", "test"] * 5
    rows = [f"{row},{part}" for row, part in zip(rows_of(), parts, strict=True)]  # valid has class 0 only
    flags = ["--split", "given", "--split-column", "part", "--label-columns", "label"]
    remarks = prepare(source(rows, "smiles,label,part"), dictionary, tmp_path / "out", *flags)["remarks"]
    assert any(remark.startswith("valid: 1 of 1") for remark in remarks)
