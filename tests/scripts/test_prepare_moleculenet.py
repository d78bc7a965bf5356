"""From molecules to a folder that the task reads; what is said of bad input."""

import json
import pickle

import numpy as np
import prepare_moleculenet
import pytest
from fairseq.data import Dictionary, data_utils

from fs_plugins.data.smiles_tokens import tokenize
from tests.builders import write_lmdb

CARBONS = [f"{'C' * n}{end}" for n in range(1, 9) for end in ("O", "N", "Cl")]  # 24, no rings
RINGS = ["c1ccccc1", "C1CCCCC1", "C1CCNCC1", "c1ccncc1", "C1CC1", "C1CCC1"]
MOLECULES = CARBONS + RINGS
SPLITS = ["train"] * 20 + ["valid"] * 5 + ["test"] * 5
GIVEN = ("--split", "given", "--split-column", "part", "--label-columns", "label")


@pytest.fixture
def dictionary(tmp_path):
    words = sorted({token for smiles in MOLECULES for token in tokenize(smiles)})
    path = tmp_path / "dict.txt"
    path.write_text("".join(f"{word} 5\n" for word in words))
    return path


@pytest.fixture
def source(tmp_path):
    def write(rows, header="smiles,label"):
        path = tmp_path / "data.csv"
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


def read(folder, *splits):
    """(line, SMILES, tokens, labels) of each molecule, from the binarised files."""
    found = []
    for split in splits or ("train", "valid", "test"):
        words = Dictionary.load(str(folder / "dict.txt"))
        tokens = data_utils.load_indexed_dataset(str(folder / split), words)
        labels, rows = np.load(folder / f"{split}.labels.npy"), table(folder / f"{split}.tsv")
        assert all(item[-1] == words.eos() for item in tokens)
        texts = ["".join(words[i] for i in item[:-1]) for item in tokens]
        found += [(int(n), s, t, y) for (n, s), t, y in zip(rows, texts, labels, strict=True)]
    return found


def test_every_molecule_has_its_labels(source, dictionary, tmp_path, capsys):
    """One of two properties, whose labels are missing in part, has none of both classes in valid."""
    rows = [f"{smiles},{i % 2},{'' if i % 3 else 1}" for i, smiles in enumerate(MOLECULES)]
    out = tmp_path / "out"
    description = prepare(source(rows, "smiles,a,b"), dictionary, out)
    found = read(out)
    assert sorted(line for line, *_ in found) == list(range(2, 32))
    for line, smiles, text, (a, b) in found:
        assert smiles == text == MOLECULES[line - 2]  # canonical already
        assert a == (line - 2) % 2
        assert np.isnan(b) if (line - 2) % 3 else b == 1
    sizes = {split: size["molecules"] for split, size in description["sizes"].items()}
    assert sizes == {"train": 24, "valid": 3, "test": 3} and description["names"] == ["a", "b"]
    assert description["sizes"]["train"]["longest"] == 11  # eight carbons, one more, <s> and </s>
    assert any("train: 1 of 2 properties lack labels of both classes" in r for r in description["remarks"])
    assert "24/3/3 molecules" in capsys.readouterr().out


def test_bad_rows_are_listed_with_their_lines_and_lose_no_good_one(source, dictionary, tmp_path):
    rows = rows_of()
    rows[3:3] = ["", "C(,1", ",0", "CCO", "C(C)(C)(C)(C)C,1"]
    out = tmp_path / "out"
    assert prepare(source(rows), dictionary, out)["skipped"] == 5
    assert len(read(out)) == len(MOLECULES)
    report = table(out / "report.tsv")
    assert [(line, status) for line, _, status, *_ in report] == [(str(n), "skipped") for n in range(5, 10)]
    wanted = ("empty line", "not a SMILES", "empty SMILES", "1 cells, but the header has 2", "valence")
    assert all(reason in row[3] for reason, row in zip(wanted, report, strict=True))


def test_unknown_tokens_are_kept_named_and_counted(source, dictionary, tmp_path, capsys, refusal):
    path = source([*rows_of(), "CC[Si],1", "[Si]CC[Se],0"])
    flags = ("--split", "random", "--max-unknown", "0.1")
    description = prepare(path, dictionary, tmp_path / "out", *flags)
    assert description["unknown_tokens"] == {"[Si]": 2, "[Se]": 1}
    assert len(read(tmp_path / "out")) == 32
    assert "2 unknown tokens became <unk>: [Si] (2), [Se] (1)" in capsys.readouterr().out
    assert {row[2] for row in table(tmp_path / "out" / "report.tsv")} == {"kept"}
    message = refusal(path, dictionary, tmp_path / "none")
    assert "2 of 32 molecules have tokens missing from the dictionary: [Si] (2), [Se] (1)" in message
    assert not (tmp_path / "none").exists()


def test_regression_keeps_units_and_tells_the_scale(source, dictionary, tmp_path):
    rows = [f"{smiles},{1.5 * i - 7}" for i, smiles in enumerate(MOLECULES)]
    out = tmp_path / "out"
    description = prepare(source(rows), dictionary, out, "--kind", "regression")
    train = np.array([label for *_, label in read(out, "train")], dtype=np.float64)
    assert description["mean"] == pytest.approx([train.mean()])
    assert description["std"] == pytest.approx([train.std()])
    assert {float(y[0]) for *_, y in read(out, "test")} <= {1.5 * i - 7 for i in range(30)}


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
            assert np.isnan(b) if i % 3 else b == 1
    assert "LMDBs are split" in refusal(folder, dictionary, tmp_path / "x", "--split", "random")
    assert "2 labels, but 1 are" in refusal(folder, dictionary, tmp_path / "x", "--label-columns", "a")


def test_known_sets_have_their_columns(tmp_path, dictionary, source, refusal):
    path = source([f"T{i},{row}" for i, row in enumerate(rows_of())], "mol_id,smiles,NR-AR")
    description = prepare(path, dictionary, tmp_path / "out", dataset="tox21")
    assert description["names"] == ["NR-AR"] and description["allow_valence"] is True
    message = refusal(path, dictionary, tmp_path / "other", dataset="tx21")
    assert "the label 'T0' is not" in message and "'tx21' is not one of bace, bbbp, tox21" in message


@pytest.mark.parametrize(
    ("rows", "header", "flags", "message"),
    [
        (["CCO"], "smiles", (), "no column of labels"),
        (["CCO,1", "CCN,yes"], "smiles,label", (), "line 3, label: the label 'yes' is not 0, 1 or empty"),
        (["CCO,inf"], "smiles,label", ("--kind", "regression"), "the label 'inf' is not a number"),
        (
            [f"{s},1" for s in MOLECULES],
            "smiles,label",
            (),
            "properties lack labels of both classes in train",
        ),
        (
            [f"{s},{int(i < 10)},{part}" for i, (s, part) in enumerate(zip(MOLECULES, SPLITS, strict=True))],
            "smiles,label,part",
            GIVEN,
            "properties lack labels of both classes in valid",
        ),
        (
            [f"{s}," for s in MOLECULES],
            "smiles,label",
            ("--kind", "regression"),
            "all properties have no label in train",
        ),
        (["C(,1", "D,0"], "smiles,label", (), "no molecule could be read; the first, line 2"),
        (rows_of(CARBONS), "smiles,label", (), "leaves train empty: there are 1 scaffolds"),
        (rows_of(), "smiles,label", ("--smiles-column", "mol"), "no column 'mol'"),
        (rows_of(), "smiles,label", ("--split", "given"), "go together"),
    ],
)
def test_what_is_refused(source, dictionary, tmp_path, rows, header, flags, message, refusal):
    assert message in refusal(source(rows, header), dictionary, tmp_path / "out", *flags)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["data.csv", "dict.txt"]  # nothing is left behind


def test_a_given_split_and_repeated_molecules(source, dictionary, tmp_path):
    rows = [f"{row},{part}" for row, part in zip(rows_of(), SPLITS, strict=True)]
    rows += ["OC,1,test", "OCC,1,train", "NC,0,valid"]  # CO, CCO and CN, which are in train
    path = source(rows, "smiles,label,part")
    for form, written in (("canonical", "CCO"), ("as-given", "OCC")):
        description = prepare(path, dictionary, tmp_path / form, *GIVEN, "--smiles", form)
        (remark,) = [r for r in description["remarks"] if "more than once" in r]
        assert remark.startswith("3 molecules occur")
        assert "2 of them in more than one split, 1 in both" in remark
        assert [line for line, *_ in read(tmp_path / form, "valid")] == [22, 23, 24, 25, 26, 34]
        assert dict(row[:2] for row in read(tmp_path / form))[33] == written
