"""From molecules to a folder that the task reads; what is said of bad input."""

import contextlib
import json
import os
import pickle
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import prepare_moleculenet
import pytest
from fairseq.data import Dictionary, data_utils
from hypothesis import given, settings
from hypothesis import strategies as st
from lib.command_line import UserError
from lib.data.moleculenet import Molecule, read_table
from lib.data.tables import TableFormat

from fs_plugins.data.smiles_tokens import tokenize
from tests.support.builders import write_lmdb

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
    exact = ("--split", "random", "--max-unknown", "0.0625")  # two of 32
    assert prepare(path, dictionary, tmp_path / "exact", *exact)["unknown_tokens"]
    refusal(path, dictionary, tmp_path / "none", "--max-unknown", "0.0624")
    refusal(path, dictionary, tmp_path / "none", "--max-unknown", "0")
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
        pickle.dumps({"smi": s, "target": [np.bool_(i % 2), -1 if i % 3 else 1]})
        for i, s in enumerate(MOLECULES)
    ]
    write_lmdb(folder / "train.lmdb", [*values[:20], b"broken"])
    write_lmdb(folder / "valid.lmdb", values[20:25])
    (folder / "test.lmdb").mkdir()
    write_lmdb(folder / "test.lmdb" / "data.mdb", values[25:])
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
    assert "mol_id: 'T0'" in refusal(path, dictionary, tmp_path / "other", dataset="tx21")


@pytest.mark.parametrize(
    ("rows", "header", "flags", "message"),
    [
        (["CCO"], "smiles", (), "no column of labels"),
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
        counts = "3, 2 with different labels, 2 in more than one split, 1 in both train and test, so"
        assert f": {counts}" in remark
        assert [line for line, *_ in read(tmp_path / form, "valid")] == [22, 23, 24, 25, 26, 34]
        assert dict(row[:2] for row in read(tmp_path / form))[33] == written


def test_repeats_within_a_split_or_of_valid_spoil_no_test():
    def remarks(**labels):
        one = {split: [Molecule(0, "C", y, "", canonical="C") for y in ys] for split, ys in labels.items()}
        return prepare_moleculenet.repeated_molecules(one)

    nan = float("nan")
    assert remarks(train=[[1.0]], valid=[], test=[]) == []
    (within,) = remarks(train=[[1.0, nan], [nan, 0.0]], valid=[], test=[])
    assert within.endswith(": 1")
    (shared,) = remarks(train=[[1.0, 0.0]], valid=[[0.0, 0.0]], test=[])
    assert shared.endswith(": 1, 1 with different labels, 1 in more than one split")


@pytest.mark.parametrize("mark", [";", "\t"])
@pytest.mark.parametrize("encoding", ["cp1252", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("index", ["", "Unnamed: 0"])
def test_a_table_from_a_spreadsheet(mark, encoding, index, dictionary, tmp_path, capsys):
    """Row numbers and a comma too many are no property."""
    rows = [[i, smiles, "µ", 1.5 * i, ""] for i, smiles in enumerate(MOLECULES)]
    lines = [mark.join(map(str, row)) for row in [[index, "smiles", "name", "y", ""], *rows]]
    (tmp_path / "a.csv").write_bytes("\r\n".join(lines).encode(encoding))
    flags = ("--kind", "regression", "--split", "random")
    message = prepare(tmp_path / "a.csv", dictionary, tmp_path / "out", *flags, "--label-columns", "y")
    assert message["names"] == ["y"]
    (tmp_path / "b.csv").write_bytes("\r\n".join(lines).replace("µ", "1").encode(encoding))
    described = prepare(tmp_path / "b.csv", dictionary, tmp_path / "all", *flags)
    assert described["names"] == ["name", "y"] and "column 1, 5 without a name" in capsys.readouterr().out
    assert {line: float(y) for line, *_, (_, y) in read(tmp_path / "all")} == {
        i + 2: 1.5 * i for i in range(len(MOLECULES))
    }


def test_parquet_gives_what_csv_gives(dictionary, tmp_path):
    frame = pd.DataFrame({"smiles": MOLECULES, "a": [i % 2 for i in range(30)], "b": [None, 0.0, 1.0] * 10})
    frame = frame.set_index(frame.index * 7)  # pandas writes it as a column
    frame.to_csv(tmp_path / "a.csv")
    frame.to_parquet(tmp_path / "a.parquet")
    for kind in ("csv", "parquet"):
        prepare(tmp_path / f"a.{kind}", dictionary, tmp_path / kind, "--split", "random", "--seed", 3)
    for path in (tmp_path / "csv").iterdir():
        if path.name != "molecules.json":  # which names the source
            assert path.read_bytes() == (tmp_path / "parquet" / path.name).read_bytes()


def test_seeds_of_a_random_split(source, dictionary, tmp_path):
    splits = []
    for number, seed in enumerate((0, 1, 1)):
        out = tmp_path / str(number)
        prepare(source(rows_of()), dictionary, out, "--split", "random", "--seed", seed)
        splits.append([line for line, *_ in read(out, "test")])
    assert splits[0] != splits[1] == splits[2]


BAD = ["n.d.", ">1", "1e39", "-1e-60", "inf", "1_000", "1,5", "NA", "TRUE"]


def test_all_cells_that_are_no_labels_are_listed_at_once(dictionary, tmp_path, refusal):
    rows = [f"{s};{i};{BAD[i % len(BAD)] if i < 20 else ''}" for i, s in enumerate(MOLECULES)]
    (tmp_path / "a.csv").write_text("\n".join(["smiles;a;b", *rows]))
    flags = ("--kind", "regression", "--split", "random")
    message = refusal(tmp_path / "a.csv", dictionary, tmp_path / "out", *flags)
    for i, cell in enumerate(BAD):
        assert f"{3 if i < 2 else 2} x b: {cell!r}, first in line {i + 2}" in message
    description = prepare(tmp_path / "a.csv", dictionary, tmp_path / "out", *flags, "--skip-broken")
    assert description["skipped"] == 20 and len(read(tmp_path / "out")) == 10
    assert table(tmp_path / "out" / "report.tsv")[1][3] == "not a label: b is '>1'"
    message = refusal(tmp_path / "a.csv", dictionary, tmp_path / "no", "--split", "random")
    assert "28 x a" not in message and "a: '2', first in line 4" in message and "b: 'TRUE'" not in message


NUMBER = st.floats(width=32, allow_infinity=False, allow_subnormal=False)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([*MOLECULES, "C(", ""]), NUMBER)),
    st.binary(max_size=20),
)
def test_labels_come_back_and_no_bytes_end_in_a_traceback(rows, junk):
    """What is read is float32 to the bit, and NaN is a missing label."""
    path = Path(tempfile.gettempdir(), f"labels-{os.getpid()}.csv")
    try:
        path.write_text("".join(["smiles,y\n", *(f"{smiles},{y!r}\n" for smiles, y in rows)]))
        _, molecules, _ = read_table(path, TableFormat(), (), (), False, None, False)
        assert [(m.line, m.smiles) for m in molecules] == [(i, s) for i, (s, _) in enumerate(rows, 2)]
        labels = [m.labels[0] for m in molecules]
        assert np.array_equal(labels, [y for _, y in rows], equal_nan=True)
        path.write_bytes(path.read_bytes() + junk)
        with contextlib.suppress(UserError):
            read_table(path, TableFormat(), (), (), True, None, True)
    finally:
        path.unlink()
