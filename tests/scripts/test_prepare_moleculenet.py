"""From molecules to a folder that the task reads; what is said of bad input."""

import json
import pickle
from pathlib import Path

import numpy as np
import prepare_moleculenet
import pytest

from fs_plugins.data.smiles_tokens import tokenize
from tests.support import builders

CARBONS = [f"{'C' * n}{end}" for n in range(1, 9) for end in ("O", "N", "Cl")]  # 24, no rings
RINGS = ["c1ccccc1", "C1CCCCC1", "C1CCNCC1", "c1ccncc1", "C1CC1", "C1CCC1"]
MOLECULES = CARBONS + RINGS
SPLITS = ["train"] * 20 + ["valid"] * 5 + ["test"] * 5
GIVEN = ("--split-column", "part", "--label-columns", "label")
RANDOM = ("--split", "random")
ROWS = [f"{smiles},{i % 2}" for i, smiles in enumerate(MOLECULES)]


class Preparation:
    """Calls of the script in a folder; a source is rows of a table, or a file or folder."""

    def __init__(self, folder: Path, refused):
        self.folder, self._refused = folder, refused
        builders.write_dictionary(folder, sorted({token for one in MOLECULES for token in tokenize(one)}))

    def words(self, source, flags, header="smiles,label", out="out", dataset="mine") -> list[str]:
        if isinstance(source, list):
            (self.folder / "data.csv").write_text("\n".join([header, *source]) + "\n")
            source = self.folder / "data.csv"
        words = [dataset, source, self.folder / out, "--dictionary", self.folder / "dict.txt", *flags]
        return list(map(str, words))

    def __call__(self, source, *flags, **more) -> dict:
        """Prepares the source; returns molecules.json."""
        words = self.words(source, flags, **more)
        assert prepare_moleculenet.main(words) == 0
        return json.loads(Path(words[2], "molecules.json").read_text())

    def refused(self, source, *flags, out="none", **more) -> str:
        message = self._refused(prepare_moleculenet.main, *self.words(source, flags, out=out, **more))
        assert not (self.folder / out).exists() and not list(self.folder.glob(".*"))
        return message

    def table(self, name, out="out") -> list[list[str]]:
        return [line.split("\t") for line in (self.folder / out / name).read_text().splitlines()][1:]

    def read(self, *splits, out="out") -> list[tuple]:
        """(line, SMILES, tokens, labels) of each molecule, from the binarised files."""
        found = []
        for split in splits or ("train", "valid", "test"):
            texts = map("".join, builders.read_split(self.folder / out, split))
            labels = np.load(self.folder / out / f"{split}.labels.npy")
            rows = zip(self.table(f"{split}.tsv", out), texts, labels, strict=True)
            found += [(int(n), s, t, y) for (n, s), t, y in rows]
        return found


@pytest.fixture
def prepare(tmp_path, refused):
    return Preparation(tmp_path, refused)


def test_every_molecule_has_its_labels(prepare):
    """One of two properties, whose labels are missing in part, has none of both classes in valid."""
    rows = [f"{smiles},{i % 2},{'' if i % 3 else 1}" for i, smiles in enumerate(MOLECULES)]
    description = prepare(rows, header="smiles,a,b")
    found = prepare.read()
    assert sorted(line for line, *_ in found) == list(range(2, 32))
    for line, smiles, text, (a, b) in found:
        assert smiles == text == MOLECULES[line - 2]  # canonical already
        assert a == (line - 2) % 2
        assert np.isnan(b) if (line - 2) % 3 else b == 1
    sizes = {split: size["molecules"] for split, size in description["sizes"].items()}
    assert sizes == {"train": 24, "valid": 3, "test": 3} and description["names"] == ["a", "b"]
    assert description["sizes"]["train"]["longest"] == 11  # eight carbons, one more, <s> and </s>
    assert description["sizes"]["train"]["positives"] == [12, 8]
    assert description["sizes"]["train"]["labels"] == [24, 8]


def test_bad_rows_are_listed_with_their_lines_and_lose_no_good_one(prepare):
    bad = ["C(,1", ",0", "CCO,1,1", "C(C)(C)(C)(C)C,1", "[#119],0", f"C1CC1{'C' * 1000},1", "CC(O)C.?,x,"]
    assert prepare([*ROWS[:3], *bad, *ROWS[3:]], "--skip-broken")["skipped"] == 7
    assert len(prepare.read()) == len(MOLECULES)
    report = [(line, status) for line, _, status, *_ in prepare.table("report.tsv")]
    assert report == [(str(n), "skipped") for n in range(5, 12)]


def test_unknown_tokens_are_kept_named_and_counted(prepare):
    rows = [*ROWS, "CC[Si],1", "[Si]CC[Se],0"]
    description = prepare(rows, *RANDOM, "--max-unknown", "0.0625")  # two of 32
    assert description["unknown_tokens"] == {"[Si]": 2, "[Se]": 1} and len(prepare.read()) == 32
    assert {row[2] for row in prepare.table("report.tsv")} == {"kept"}
    assert "2 of 32 molecules" in prepare.refused(rows, *RANDOM, "--max-unknown", "0.0624")


def unimol(folder, labels):
    """Uni-Mol's files of MOLECULES; the last is in LMDB's own layout."""
    values = [pickle.dumps({"smi": s, "target": y}) for s, y in zip(MOLECULES, labels, strict=True)]
    (folder / "test.lmdb").mkdir(parents=True)
    builders.write_lmdb(folder / "train.lmdb", [*values[:20], b"broken"])
    builders.write_lmdb(folder / "valid.lmdb", values[20:25])
    builders.write_lmdb(folder / "test.lmdb" / "data.mdb", values[25:])
    return folder


def test_unimol_lmdbs(prepare, tmp_path):
    labels = [[np.bool_(i % 2), -1 if i % 3 else 1] for i in range(30)]
    folder = unimol(tmp_path / "unimol", labels)
    description = prepare(folder, "--label-columns", "a", "b")
    assert description["split"]["kind"] == "given" and description["skipped"] == 1
    for split, first in (("train", 0), ("valid", 20), ("test", 25)):
        for line, smiles, _, (a, b) in prepare.read(split):
            i = first + line - 1
            assert smiles == MOLECULES[i] and a == i % 2
            assert np.isnan(b) if i % 3 else b == 1
    assert "train.lmdb, entry 1: " in prepare.refused(folder, "--label-columns", "a")  # of two labels
    values = prepare(folder, "--kind", "regression", out="values")  # of which -1 is one
    assert values["names"] == ["property-1", "property-2"]
    assert {float(b) for *_, (_, b) in prepare.read(out="values")} == {-1.0, 1.0}


REGRESSION = ("--kind", "regression", *RANDOM)


def test_known_sets_have_their_columns_and_deepchems_scaffolds(prepare, monkeypatch):
    seen, name, scaffold = set(), "murcko_scaffold", prepare_moleculenet.murcko_scaffold
    monkeypatch.setattr(prepare_moleculenet, name, lambda one, spelled: seen.add(spelled) or scaffold(one))
    rows, header = [f"T{i},{row}" for i, row in enumerate(ROWS)], "mol_id,smiles,NR-AR"
    description = prepare(rows, header=header, dataset="tox21")
    assert description["names"] == ["NR-AR"] and description["allow_valence"] is True and seen == {True}


def test_a_given_split_and_repeated_molecules(prepare):
    rows = [f"{row},{part}" for row, part in zip(ROWS, SPLITS, strict=True)]
    rows += ["OC,1,test", "OCC,1,train", "NC,0,valid"]  # CO, CCO and CN, which are in train
    builders.write_file(prepare.folder / "manifest.json", {"settings": {"smiles": "canonical"}})
    for form, written in (("canonical", "CCO"), ("as-given", "OCC")):
        description = prepare(rows, *GIVEN, "--smiles", form, header="smiles,label,part", out=form)
        assert any("give --smiles canonical" in r for r in description["remarks"]) == (form == "as-given")
        assert any("in both train and test: 1 molecule, so" in r for r in description["remarks"])
        assert [line for line, *_ in prepare.read("valid", out=form)] == [22, 23, 24, 25, 26, 34]
        assert dict(row[:2] for row in prepare.read(out=form))[33] == written
        again = {line: reason for line, _, _, reason, _ in prepare.table("report.tsv", out=form)}
        assert again["33"].endswith(f"line {MOLECULES.index('CCO') + 2}")


def test_a_table_from_a_spreadsheet(prepare, tmp_path):
    """Row numbers and a comma too many are no property; regression keeps units and digits, and tells the
    scale."""
    rows = [[i, smiles, "1", -247000.123456 - i, ""] for i, smiles in enumerate(MOLECULES)]
    lines = ["\t".join(map(str, row)) for row in [["Unnamed: 0", "smiles", "µ", "y", ""], *rows]]
    flags = (*REGRESSION, "--encoding", "utf-16")
    path = builders.write_file(tmp_path / "b.csv", "\r\n".join(lines).encode("utf-16"))
    described = prepare(path, *flags)
    assert described["names"] == ["µ", "y"]
    found = {line: float(y) for line, *_, (_, y) in prepare.read()}
    assert found == {i + 2: -247000.123456 - i for i in range(len(MOLECULES))}
    train = [float(y) for *_, (_, y) in prepare.read("train")]
    assert (described["mean"][1], described["std"][1]) == pytest.approx((np.mean(train), np.std(train)))
    prepare(path, *flags, "--seed", 4, out="other")
    assert prepare.table("test.tsv", "other") != prepare.table("test.tsv")


BAD = ["n.d.", ">1", "1e39", "-1e-60", "inf", "1_000", "1,5", "NA", "TRUE"]  # fewer than half of the cells


def test_cells_that_are_no_labels(prepare):
    rows = [f"{s};{i};{BAD[i] if i < len(BAD) else '1'}" for i, s in enumerate(MOLECULES)]
    message = prepare.refused(rows, *REGRESSION, header="SMILES;a;b")
    assert all(f"line {i + 2}: not a label: b is {cell!r}\n" in message for i, cell in enumerate(BAD))
    description = prepare(rows, *REGRESSION, "--skip-broken", header="SMILES;a;b")
    assert description["skipped"] == 0 and len(prepare.read()) == 30
    found = {line: labels for line, *_, labels in prepare.read()}
    assert all(a == line - 2 and np.isnan(b) == (line < 11) for line, (a, b) in found.items())
    assert prepare.table("report.tsv")[1][2:4] == ["kept", "not a label: b is '>1'"]


def test_names_of_missing_labels(prepare):
    """Of two assays that complement each other no row is lost."""
    rows = [f"{s};{i if i % 2 else 'n/a'};{'Missing' if i % 2 else i}" for i, s in enumerate(MOLECULES)]
    missing = ["--missing", "N/A", "--missing", "missing"]
    prepare([*rows, "CCCO;N/A;missing"], *REGRESSION, *missing, header="smiles;a;b")
    found = {line - 2: labels for line, *_, labels in prepare.read()}
    assert len(found) == 31 and all(found[i][1 - i % 2] == i and np.isnan(found[i][i % 2]) for i in range(30))


def test_a_test_set_alone(prepare):
    alone = prepare([f"{s},1,test" for s in MOLECULES], *GIVEN, header="smiles,label,part")
    assert [*alone["sizes"]] == ["test"] and len(prepare.read("test")) == 30


def test_a_molecule_that_is_spelled_twice_is_told(prepare):
    prepare([*ROWS, "OCC,1", "OCC,0"], *RANDOM)
    place = {line: part for part in ("train", "valid", "test") for line, *_ in prepare.read(part)}
    first = MOLECULES.index("CCO")
    others = ("" if first % 2 == label else " with other labels" for label in (1, 0))
    said = [f"repeated{other}: the molecule of line {first + 2}" for other in others]
    report = [[str(n), place[n], "kept", reason] for n, reason in zip((32, 33), said, strict=True)]
    assert [row[:4] for row in prepare.table("report.tsv")] == report


def test_classes_as_numbers_are_pointed_at(prepare):
    remarks = prepare([*ROWS, "OCCC,"], *REGRESSION)["remarks"]  # a label is missing, which is no other one
    assert "repeated: line 32" in remarks[0] and "--kind classification?" in remarks[1]


def test_blank_rows_are_none(prepare):
    """More of them than molecules, as spreadsheets leave them."""
    blank = [",,", "", " , ,", ",,,", ",,a note"] * 8
    rows = [*blank, *(f"{row}," for row in ROWS), *blank]
    description = prepare(rows, *RANDOM, "--label-columns", "label", header="smiles,label,note")
    assert description["skipped"] == 0 and sorted(line for line, *_ in prepare.read()) == [*range(42, 72)]


@pytest.mark.parametrize("far", [[1000.0], [-30.0], [900.0, 1100.0]])
def test_labels_in_another_unit_are_pointed_at(far, prepare):
    """Beyond 10 standard deviations of the others, of which 30 are 0 to 2.9, and one is 8.5."""
    rows = [f"{'C' * (9 + i)}O,{value}" for i, value in enumerate([*far, 8.5])]
    rows += [f"{s},{i / 10}" for i, s in enumerate(MOLECULES)]
    prepare(rows, *REGRESSION, header="smiles,logS")
    found = [(line, reason) for line, _, _, reason, *_ in prepare.table("report.tsv")]
    assert [line for line, _ in found] == [str(2 + i) for i in range(len(far))]
    assert all(f"logS is {value:g}, " in reason for value, (_, reason) in zip(far, found, strict=True))
