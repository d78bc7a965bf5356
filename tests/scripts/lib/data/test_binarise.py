"""Binarisation: sentences and their order, the split, the dictionary; the same with any number of workers."""

import csv
import json
import os
import random
import signal
from collections import Counter

import pytest
from fairseq.data import Dictionary
from lib.command_line import UserError
from lib.data import binarise
from lib.data.binarise import Encoded, Rejection

from tests.support import builders


def read(path):
    return list(enumerate(path.read_text().split("\n")[:-1], 1))


def encode(path, item):
    """Words are symbols; lines with a 'v' are for validation, those with a '!' are rejected; one kills."""
    number, line = item
    if line == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    counts = Counter(lines=1)
    if "!" in line:
        return Encoded(rejections=[Rejection(str(number), f"a '!': {line[:1]}", line)], counts=counts)
    return Encoded([line], (0.25 if "v" in line else 0.75) + number / 1000, counts=counts)


@pytest.fixture
def sources(tmp_path):
    chosen, words = random.Random(1), ["see", "v", "é", "#", "a", "bb", "ccc", "I", '"q"', "<unk>"]
    paths = [tmp_path / f"{i}.txt" for i in range(2)]
    for path in paths:
        lines = [" ".join(chosen.choices(words, k=chosen.randrange(6))) for _ in range(40)]
        lines[::7] = [f"!{line}" for line in lines[::7]]
        path.write_text("\n".join([*lines, ""]))
    return paths


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    monkeypatch.setattr(binarise, "CHUNK", 3)

    def call(name, train, workers=1):
        (folder := tmp_path / name).mkdir()
        share = {"valid_share": 0.5, "workers": workers, "build_dictionary": True}
        return folder, binarise.binarise(folder, train, (), read, encode, "words", **share)

    return call


def test_sentences_their_order_and_the_dictionary(prepare, sources):
    folder, result = prepare("out", sources)
    lines = [line for path in sources for _, line in read(path) if "!" not in line]
    for split in ("train", "valid"):
        expected = [line.split() for line in lines if ("v" in line) == (split == "valid")]
        assert builders.read_split(folder, split) == expected
        assert result[split] == {
            "sentences": len(expected),
            "tokens": sum(map(len, expected)) + len(expected),
        }
    dictionary = Dictionary.load(str(folder / "dict.txt"))
    counts = Counter(word for line in lines for word in line.split() if word != "<unk>")
    assert dictionary.symbols[4:] == sorted(counts, key=lambda word: (-counts[word], word))
    assert dictionary.count[4:] == sorted(counts.values(), reverse=True)
    assert json.loads((folder / "prepared.json").read_text()) == result
    assert result["rejected"] == {"a '!'": 12} and result["lines"] == 80
    with (folder / "rejected.tsv").open(newline="") as file:
        rows = list(csv.DictReader(file, dialect="excel-tab"))
    assert [row["line"] for row in rows] == [str(line) for line in range(1, 41, 7)] * 2


def test_any_number_of_workers_gives_the_same(prepare, sources):
    folders = [prepare(str(workers), sources, workers)[0] for workers in (1, 2, 5)]
    contents = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in folders]
    assert contents[0] == contents[1] == contents[2]
    names = {"dict.txt", "rejected.tsv", "prepared.json"}
    assert contents[0].keys() == names | {f"{s}.{e}" for s in ("train", "valid") for e in ("bin", "idx")}


def test_a_killed_process_is_said(prepare, sources):
    sources[0].write_text(sources[0].read_text() + "kill\n")
    with pytest.raises(UserError, match="a process was killed"):
        prepare("killed", sources, workers=2)
