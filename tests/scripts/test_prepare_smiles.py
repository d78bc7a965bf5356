"""Molecules to data-bin: what is good is kept in order, what is bad is told with its place."""

import csv
import json
import os
import pickle
import random
import signal
from pathlib import Path

import prepare_smiles
import pytest
from fairseq.data import Dictionary
from lib.data import binarise, frames

from fs_plugins.data.molecules import LONGEST
from fs_plugins.data.smiles_tokens import tokenize
from tests.support import builders
from tests.support.builders import write_file, write_lmdb

MOLECULES = ["CCO", "F/C=C\\F", "C[N+](C)(C)C.[Cl-]", "Brc1ccccc1", "C[C@H](N)C(=O)O", "C#N", "CCBr"]


def prepare(output, *train, flags=(), workers=1) -> tuple[list[str], list[tuple[str, ...]]]:
    """The molecules of train, and (file, line, reason, input) of the rejected."""
    valid = () if "--valid-share" in flags else ("--valid", write(output.parent / "valid.txt", ["CC", "CN"]))
    words = (output, *(w for one in train for w in ("--train", one)), *valid, *flags, "--workers", workers)
    assert prepare_smiles.main(list(map(str, words))) == 0
    with (output / "rejected.tsv").open(newline="") as file:
        rows = list(csv.reader(file, dialect="excel-tab"))
    assert rows[0] == ["file", "line", "reason", "input"]
    return read_split(output, "train"), [tuple(row) for row in rows[1:]]


def read_split(output: Path, split: str) -> list[str]:
    return ["".join(symbols) for symbols in builders.read_split(output, split)]


def write(path: Path, lines) -> Path:
    return write_file(path, "\n".join([*lines, ""]).encode(errors="surrogateescape"))


def test_a_column_of_molecules_and_their_dictionary(tmp_path):
    rows = ["id\tmol\tname", *(f'{i}\t{smiles}\t"a\t""b"",\nc"' for i, smiles in enumerate(MOLECULES))]
    flags = ("--smiles-column", "mol")
    found, rejected = prepare(tmp_path / "out", write(tmp_path / "train.tsv.gz", rows), flags=flags)
    assert found == MOLECULES and read_split(tmp_path / "out", "valid") == ["CC", "CN"] and rejected == []
    dictionary = Dictionary.load(str(tmp_path / "out" / "dict.txt"))
    everything = [token for smiles in [*MOLECULES, "CC", "CN"] for token in tokenize(smiles)]
    assert sorted(dictionary.symbols[4:]) == sorted(set(everything))
    assert dictionary.count[dictionary.index("C")] == everything.count("C")


def test_bad_lines_are_listed_and_cost_no_good_ones(tmp_path):
    bad = ["", "=C1CC", "CN(C)(C)(C)C", "ethanol CCO", "\udcff", "C" * (LONGEST + 1)]
    lines = [line for pair in zip(MOLECULES[:6], bad, strict=True) for line in pair]
    path = write(tmp_path / "a.txt", lines)
    lmdb = write_lmdb(tmp_path / "a.lmdb", [pickle.dumps({"smi": "X"}), b"junk", pickle.dumps({"smi": "C"})])
    found, rejected = prepare(tmp_path / "out", path, lmdb, flags=("--valid", lmdb))
    assert found == [*MOLECULES[:6], "C"]
    places = [(str(path), str(2 * i + 2)) for i in range(1, 6)]
    junk = [(str(lmdb), "0"), (str(lmdb), "1")]
    assert [row[:2] for row in rejected] == [*junk, *places, *junk]  # a blank line is none
    assert [text for *_, text in rejected[2:7]] == ["'=C1CC", bad[2], "ethanol", "\\xff", bad[5]]


def test_a_given_dictionary_and_a_limit(tmp_path):
    given = write_file(tmp_path / "given.txt", "O 5\nC 3\nN 1\n")
    path = write(tmp_path / "a.txt", ["CCO", "CCBr", "C" * 8, "C" * 9])
    found, rejected = prepare(tmp_path / "out", path, flags=("--dictionary", given, "--max-tokens", 10))
    assert found == ["CCO", "C" * 8]
    assert (tmp_path / "out" / "dict.txt").read_bytes() == given.read_bytes()
    unknown, long = rejected
    assert unknown[1] == "2" and "'Br'" in unknown[2] and long[1] == "4" and "11 tokens" in long[2]


@pytest.mark.parametrize("form", ["canonical", "as-given"])
def test_the_split_is_by_molecule(form, tmp_path):
    """Each once, in the order of the file, and both spellings of one on the same side."""
    spellings = [one for i in range(1, 150) for one in (f"O{'C' * i}N", f"N{'C' * i}O")]
    path = write(tmp_path / "a.txt", spellings)
    train, _ = prepare(tmp_path / "out", path, flags=("--valid-share", 0.1, "--smiles", form))
    valid = read_split(tmp_path / "out", "valid")
    sides = [[len(smiles) for smiles in found] for found in (train, valid)]
    assert all(side == sorted(side) for side in sides) and not {*sides[0]} & {*sides[1]}
    assert sorted([*sides[0], *sides[1]]) == [*map(len, spellings)]
    both = [*train, *valid]  # of two spellings, RDKit writes one
    assert sorted(both) == sorted(spellings) if form == "as-given" else len({*both}) == len(spellings) / 2
    assert 0.06 < len(valid) / len(spellings) < 0.15


def test_repeats_of_the_training_set_are_counted(tmp_path):
    """Once each, however they are spelled."""
    write(tmp_path / "b.txt", ["OCC", "CC", "N#C", "CN", "C(C)O"])
    words = ("--train", write(tmp_path / "a.txt", [*MOLECULES, "CCO"]), "--valid", tmp_path / "b.txt")
    for flags, count in ((("--smiles", "as-given"), 2), (("--workers", "1"), 2)):
        out = tmp_path / flags[1]
        assert prepare_smiles.main([*map(str, (out, *words, *flags))]) == 0
        assert json.loads((out / "prepared.json").read_text())["valid_in_train"] == count


def test_any_number_of_workers_gives_the_same(tmp_path, monkeypatch):
    """Byte for byte; in the dictionary the most frequent tokens are first, then in order of characters."""
    monkeypatch.setattr(binarise, "CHUNK", 3)
    rng, files, contents = random.Random(1), [], []
    for name in ("a.txt", "b.txt"):
        texts = ("".join(rng.choices(["C", "N", "O", "=C", "Cl"], k=rng.randrange(1, 9))) for _ in range(40))
        files.append(write(tmp_path / name, texts))
    for workers in (1, 2, 5):
        out, share = tmp_path / f"{workers}", ("--valid-share", 0.3)
        found, rejected = prepare(out, *files, flags=share, workers=workers)
        assert len(found) > 20 and len(rejected) > 10
        names = [*binarise.SPLITS, "dict", "rejected", "prepared"]
        contents.append({path.name: path.read_bytes() for path in out.iterdir() if path.stem in names})
    assert contents[0] == contents[1] == contents[2] and len(contents[0]) == 2 * 2 + 3
    dictionary = Dictionary.load(str(out / "dict.txt"))
    counts = dict(zip(dictionary.symbols[4:], dictionary.count[4:], strict=True))
    assert dictionary.symbols[4:] == sorted(counts, key=lambda token: (-counts[token], token))


def test_a_line_that_is_no_csv_is_found_before_any_work(tmp_path, refused, monkeypatch):
    monkeypatch.setattr(prepare_smiles, "binarise", None)
    monkeypatch.setattr(frames, "ROWS", 1)
    path = write_file(tmp_path / "a.csv", 'smiles\nC\nCC\n"C"x\n')
    assert "a.csv, line 4: " in refused(prepare_smiles.main, tmp_path / "out", "--train", path)


class Killed(prepare_smiles.SmilesEncoder):
    def __call__(self, path, record):
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_split_of_which_nothing_is_left(tmp_path, refused):
    """All copies of one molecule are on one side."""
    words = (tmp_path / "out", "--train", write(tmp_path / "a.txt", ["CCO", "OCC"]), "--workers", 1)
    assert "nothing is left for train" in refused(prepare_smiles.main, *words)


def test_a_process_that_is_killed(tmp_path, refused, monkeypatch):
    """For it, a pool would wait."""
    monkeypatch.setattr(prepare_smiles, "SmilesEncoder", Killed)
    words = (tmp_path / "out", "--train", write(tmp_path / "good.txt", ["CC"]), "--workers", 2)
    assert "a process was killed" in refused(prepare_smiles.main, *words)
    assert not (tmp_path / "out").exists()
