"""Molecules to data-bin: what is good is kept in order, what is bad is told with its place."""

import csv
import pickle
import random
from pathlib import Path

import prepare_smiles
import pyarrow
import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset
from hypothesis import given, settings
from hypothesis import strategies as st
from prepare_smiles import place_of
from pyarrow import parquet

from fs_plugins.data.molecules import LONGEST, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from tests.support.builders import write_file, write_lmdb

FILES = ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx", "rejected.tsv")
MOLECULES = ["CCO", "F/C=C\\F", "C[N+](C)(C)C.[Cl-]", "Brc1ccccc1", "C[C@H](N)C(=O)O", "C#N", "CCBr"]


def prepare(output, *arguments, workers=1):
    assert prepare_smiles.main([str(output), *map(str, arguments), "--workers", str(workers)]) == 0


def read_split(output: Path, split: str) -> list[str]:
    """The molecules of a split as strings again; every one ends in </s>."""
    dictionary = Dictionary.load(str(output / "dict.txt"))
    found = []
    for ids in MMapIndexedDataset(str(output / split)):
        assert ids[-1] == dictionary.eos()
        found.append("".join(dictionary[i] for i in ids[:-1]))
    return found


def rejected(output: Path) -> list[tuple[str, str, str]]:
    with (output / "rejected.tsv").open(newline="") as file:
        rows = list(csv.reader(file, dialect="excel-tab"))
    assert rows[0] == ["file", "line", "reason", "input"]
    return [tuple(row) for row in rows[1:]]


def contents(output: Path) -> dict[str, bytes]:
    return {name: (output / name).read_bytes() for name in FILES}


def write(path: Path, lines) -> Path:
    return write_file(path, "\n".join([*lines, ""]).encode(errors="surrogateescape"))


@pytest.fixture
def valid(tmp_path):
    return write(tmp_path / "valid.txt", ["CC", "CN"])


@pytest.mark.parametrize("kind", ["txt", "txt.gz", "smi", "csv", "tsv.gz", "lmdb", "parquet"])
def test_every_kind_of_file(kind, valid, tmp_path):
    path, flags = tmp_path / f"train.{kind}", ("--smiles-column", "mol")
    if kind == "lmdb":
        write_lmdb(path, [pickle.dumps({"smi": smiles}) for smiles in MOLECULES])
    elif kind == "parquet":
        parquet.write_table(pyarrow.table({"id": range(7), "mol": MOLECULES}), path)
    elif kind[1:3] == "sv":
        rows = ['id,"mol",name', *(f'{i},{smiles},"a ""b"",\nc"' for i, smiles in enumerate(MOLECULES))]
        write(path, [row.replace(",", "\t") for row in rows] if kind == "tsv.gz" else rows)
    elif kind == "smi":
        write(path, [f"{smiles}\tname {smiles}" for smiles in MOLECULES])
    else:
        write(path, MOLECULES)
    prepare(tmp_path / "out", "--train", path, "--valid", valid, *flags)
    assert read_split(tmp_path / "out", "train") == MOLECULES
    assert read_split(tmp_path / "out", "valid") == ["CC", "CN"]
    assert rejected(tmp_path / "out") == []
    dictionary = Dictionary.load(str(tmp_path / "out" / "dict.txt"))
    everything = [token for smiles in [*MOLECULES, "CC", "CN"] for token in tokenize(smiles)]
    assert sorted(dictionary.symbols[4:]) == sorted(set(everything))
    assert dictionary.count[dictionary.index("C")] == everything.count("C")


def test_bad_lines_are_listed_and_cost_no_good_ones(valid, tmp_path, capsys):
    bad = ["", "C1CC", "CN(C)(C)(C)C", "CCO ethanol", "\udcff", "C" * (LONGEST + 1), "c1cccc1"]
    lines = [line for pair in zip(MOLECULES, bad, strict=True) for line in pair]
    path = write(tmp_path / "a.txt", lines)
    prepare(tmp_path / "out", "--train", path, "--valid", valid)
    assert read_split(tmp_path / "out", "train") == MOLECULES
    found = rejected(tmp_path / "out")
    assert [(file, line) for file, line, *_ in found] == [(str(path), str(2 * i + 2)) for i in range(7)]
    reasons = [reason for _, _, reason, _ in found]
    assert reasons[0] == "empty line"
    assert reasons[1] == "invalid SMILES: not a SMILES string"
    assert "valence" in reasons[2] and reasons[2].startswith("invalid SMILES: ")
    assert reasons[3] == "invalid SMILES: white space in the SMILES"
    assert reasons[4] == "invalid UTF-8: byte 0xff"
    assert reasons[6].startswith("invalid SMILES: ") and "kekulize" in reasons[6]
    assert [text for *_, text in found] == ["", *bad[1:4], "\\xff", *bad[5:]]
    shown = capsys.readouterr().out
    assert "rejected: 7 (5 x invalid SMILES, 1 x empty line, 1 x invalid UTF-8; see " in shown


def test_values_of_lmdb_that_cannot_be_read(valid, tmp_path):
    values = [{"smi": "CCO"}, "junk", {"smiles": "C"}, {"smi": "X"}]
    path = write_lmdb(tmp_path / "a.lmdb", list(map(pickle.dumps, values)))
    prepare(tmp_path / "out", "--train", path, "--valid", valid)
    assert read_split(tmp_path / "out", "train") == ["CCO"]
    found = [(line, reason.split(":")[0]) for _, line, reason, _ in rejected(tmp_path / "out")]
    assert found == [("1", "not a readable value"), ("2", "no string under 'smi'"), ("3", "invalid SMILES")]


def test_canonical_or_as_given(valid, tmp_path):
    molecules = ["OCC", "C1=CC=CC=C1", "C(C)O"]
    path = write(tmp_path / "a.txt", molecules)
    prepare(tmp_path / "canonical", "--train", path, "--valid", valid)
    assert read_split(tmp_path / "canonical", "train") == ["CCO", "c1ccccc1", "CCO"]
    prepare(tmp_path / "given", "--train", path, "--valid", valid, "--smiles", "as-given")
    assert read_split(tmp_path / "given", "train") == molecules


def test_a_given_dictionary_and_a_limit(valid, tmp_path):
    given = tmp_path / "given.txt"
    given.write_text("O 5\nC 3\nN 1\n")
    path = write(tmp_path / "a.txt", ["CCO", "CCBr", "C" * 8, "C" * 9])
    prepare(tmp_path / "out", "--train", path, "--valid", valid, "--dictionary", given, "--max-tokens", 10)
    assert read_split(tmp_path / "out", "train") == ["CCO", "C" * 8]
    assert (tmp_path / "out" / "dict.txt").read_bytes() == given.read_bytes()
    assert [row[1:3] for row in rejected(tmp_path / "out")] == [
        ("2", "unknown token: 'Br' is not in the dictionary"),
        ("4", "too long: 11 tokens with <s> and </s>"),
    ]


def test_split_by_hash(tmp_path):
    """Each molecule once, in the order of the file, and the same string always in the same split."""
    molecules = ["C" * i + "O" * j for i in range(1, 40) for j in range(1, 40)]
    path = write(tmp_path / "a.txt", [*molecules, *molecules[:100]])
    prepare(tmp_path / "out", "--train", path, "--valid-share", 0.1)
    train, valid = (read_split(tmp_path / "out", split) for split in ("train", "valid"))
    assert sorted([*train, *valid]) == sorted([*molecules, *molecules[:100]])
    assert not set(train) & set(valid)
    assert train == [m for m in [*molecules, *molecules[:100]] if place_of(m) >= 0.1]
    assert 0.07 < len(valid) / len(molecules) < 0.14


@pytest.mark.parametrize("form", ["canonical", "as-given"])
def test_two_spellings_of_a_molecule_are_on_one_side(form, tmp_path):
    spellings = [(f"O{'C' * i}N", f"N{'C' * i}O") for i in range(1, 60)]
    path = write(tmp_path / "a.txt", [one for pair in spellings for one in pair])
    prepare(tmp_path / "out", "--train", path, "--valid-share", 0.5, "--smiles", form)
    train, valid = (read_split(tmp_path / "out", split) for split in ("train", "valid"))
    lengths = {len(smiles) for smiles in train}, {len(smiles) for smiles in valid}
    assert all(lengths) and not lengths[0] & lengths[1]


JUNK = st.binary(max_size=8).filter(lambda line: b"\n" not in line and b"\r" not in line)


@settings(deadline=None, max_examples=15)
@given(st.lists(st.sampled_from(MOLECULES).map(str.encode) | JUNK, min_size=1, max_size=8), st.booleans())
def test_molecules_come_back_and_all_others_are_listed(tmp_path_factory, lines, table):
    """Whatever bytes are between them, no line is lost."""
    folder, lines = tmp_path_factory.mktemp("smiles"), [b"CCO", *lines]
    path = write_file(folder / "a.txt", b"\n".join([b"smiles"] * table + [*lines, b""]))
    valid = write(folder / "valid.txt", ["CC"])
    if table and any(b'"' in line for line in lines):
        return  # quotation marks mean something there
    prepare(folder / "out", "--train", path, "--valid", valid)
    kept, bad = read_split(folder / "out", "train"), rejected(folder / "out")
    good = [line.decode() for line in lines if line in map(str.encode, MOLECULES)]
    assert [smiles for smiles in kept if smiles in MOLECULES] == good
    assert len(kept) + len(bad) == len(lines)
    assert all(parse_molecule(smiles) for smiles in kept)


def test_workers_change_nothing(valid, tmp_path):
    chosen = random.Random(1)
    lines = [
        "C" * chosen.randrange(1, 30) + chosen.choice(["O", "", "[Na+]", "!", "Cl"]) for _ in range(5_000)
    ]
    path, lmdb_path = write(tmp_path / "a.txt.gz", lines), tmp_path / "b.lmdb"
    write_lmdb(lmdb_path, [pickle.dumps({"smi": line}) for line in lines[:1000]])
    arguments = ["--train", path, lmdb_path, "--valid", valid]
    prepare(tmp_path / "one", *arguments)
    prepare(tmp_path / "two", *arguments, workers=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_what_is_refused_before_work_starts(valid, tmp_path, refused):
    out, nothing = tmp_path / "out", tmp_path / "nothing.txt"

    def says(train, *flags) -> str:
        return refused(prepare_smiles.main, out, "--train", train, *flags, "--workers", 1)

    assert f"{nothing} does not exist" in says(nothing)
    nothing.touch()
    assert f"{nothing} is empty" in says(nothing)
    assert "a.sdf has an unknown format: molecules are read from .txt" in says(tmp_path / "a.sdf")
    assert "no column 'smiles'" in says(write(tmp_path / "a.csv", ["mol,y", "CCO,1"]))
    assert "not allowed with argument --valid" in says(valid, "--valid", valid, "--valid-share", 0.1)
    assert "more than once" in says(valid, "--valid", valid)
    assert "--max-tokens 2" in says(valid, "--max-tokens", 2)
    assert not out.exists()
