"""Binarisation: fairseq's own bytes, whatever the number of workers and however often it was killed."""

import csv
import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import MMapIndexedDataset, make_builder
from lib import folders
from lib.command_line import UserError
from lib.corpora import binarise
from lib.corpora.blocks import Block, EncodedBlock

from tests.lib.corpora import toy_preparation
from tests.lib.corpora.toy_preparation import WordEncoder, prepare

TOY = Path(toy_preparation.__file__)
FILES = ("dict.txt", "train.bin", "train.idx", "valid.bin", "valid.idx", "rejected.tsv")


def corpus(path: Path, lines: int = 40, seed: int = 1) -> Path:
    chosen = random.Random(seed)
    words = ["see", "v", "é", "#", "a", "bb", "ccc", "I", '"q"']
    made = [" ".join(chosen.choices(words, k=chosen.randrange(6))) for _ in range(lines)]
    made[::7] = [f"!{line}" for line in made[::7]]
    path.write_text("\n".join([*made, ""]))
    return path


def contents(output: Path) -> dict[str, bytes]:
    return {name: (output / name).read_bytes() for name in FILES}


@pytest.fixture
def source(tmp_path):
    return corpus(tmp_path / "corpus.txt")


def test_bytes_of_fairseq(source, tmp_path):
    """Against fairseq's own dictionary and builder, over the same sentences."""
    prepare(tmp_path / "out", source, 1, WordEncoder())
    lines = [line for line in source.read_text().split("\n")[:-1] if "!" not in line]
    dictionary = Dictionary.load(str(tmp_path / "out" / "dict.txt"))
    counts = {}
    for word in " ".join(lines).split():
        counts[word] = counts.get(word, 0) + 1
    assert {s: c for s, c in zip(dictionary.symbols, dictionary.count, strict=True) if s in counts} == counts
    assert dictionary.symbols[4:] == sorted(counts, key=lambda word: (-counts[word], word))
    for split in ("train", "valid"):
        prefix = tmp_path / split
        builder = make_builder(f"{prefix}.bin", impl="mmap", vocab_size=len(dictionary))
        for line in lines:
            if ("v" in line) == (split == "valid"):
                builder.add_item(dictionary.encode_line(line, add_if_not_exist=False))
        builder.finalize(f"{prefix}.idx")
        for suffix in (".bin", ".idx"):
            ours = tmp_path / "out" / f"{split}{suffix}"
            assert ours.read_bytes() == prefix.with_suffix(suffix).read_bytes()


def test_empty_lines_are_sentences(source, tmp_path):
    source.write_text("a v\n\nb\n\n")
    prepare(tmp_path / "out", source, 1, WordEncoder())
    assert [len(s) for s in MMapIndexedDataset(str(tmp_path / "out" / "train"))] == [1, 2, 1]


def test_rejected_and_report(source, tmp_path):
    source.write_text('a v\nb\n!c\t"d"\ne!\n')
    result = prepare(tmp_path / "out", source, 1, WordEncoder())
    with (tmp_path / "out" / "rejected.tsv").open(newline="") as file:
        rows = list(csv.reader(file, dialect="excel-tab"))
    assert rows == [
        ["file", "line", "reason", "input"],
        ["corpus.txt", "3", "a '!': !", '!c\t"d"'],
        ["corpus.txt", "4", "a '!': e", "e!"],
    ]
    assert result["rejected"] == {"a '!'": 2} and result["lines"] == 4
    assert result["train"] == {"sentences": 1, "tokens": 2} and result["valid"]["tokens"] == 3
    assert result["symbols"] == 4 + 3
    assert not (tmp_path / "out" / "parts").exists()
    assert json.loads((tmp_path / "out" / "prepared.json").read_text()) == result


def test_workers_change_nothing(source, tmp_path):
    for workers in (1, 2, 3):
        prepare(tmp_path / str(workers), source, workers, WordEncoder())
    assert contents(tmp_path / "1") == contents(tmp_path / "2") == contents(tmp_path / "3")


def start(output, source, workers, log):
    scripts = TOY.parents[3] / "scripts"
    return subprocess.Popen(
        [sys.executable, str(TOY), str(output), str(source), str(workers), str(log)],
        env={**os.environ, "PYTHONPATH": str(scripts)},
        stderr=subprocess.PIPE,
        text=True,
    )


def children(pid: int) -> list[int]:
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    pairs = [tuple(map(int, line.split())) for line in listing.splitlines()]
    found, frontier = [], [pid]
    while frontier:
        frontier = [child for child, parent in pairs if parent in frontier]
        found += frontier
    return found


def stop(*_):
    raise KeyboardInterrupt


def until(condition, what: str):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_repeated(source, tmp_path, workers):
    prepare(tmp_path / "whole", source, 1, WordEncoder())
    output, log = tmp_path / "out", tmp_path / "log"
    run = start(output, source, workers, log)
    until(lambda: len(list(output.glob("parts/*.npz"))) >= 4, "the first parts")
    offspring = children(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert not any((output / name).exists() for name in FILES)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in offspring), "the end of the workers")
    kept = {path: path.stat().st_mtime_ns for path in output.glob("parts/*.npz")}
    (output / "parts" / "00000099.npz.77.tmp").write_bytes(b"half")  # as a kill leaves it

    done_before = len(log.read_text().splitlines())
    run = start(output, source, 3 - workers, log)
    assert run.wait() == 0, run.stderr.read()
    assert contents(output) == contents(tmp_path / "whole")
    repeated = len(log.read_text().splitlines()) - done_before
    assert repeated == 14 - len(kept)  # 40 lines in blocks of 3; no part is made twice


def test_a_run_killed_while_merging(source, tmp_path, monkeypatch):
    prepare(tmp_path / "whole", source, 1, WordEncoder())
    output = tmp_path / "out"

    with monkeypatch.context() as patched:
        patched.setattr(binarise, "write_json", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(output, source, 1, WordEncoder())
    assert not (output / "prepared.json").exists()
    log = tmp_path / "log"
    prepare(output, source, 1, WordEncoder(log))
    assert contents(output) == contents(tmp_path / "whole")
    assert not log.exists()


def test_a_damaged_part_is_named(source, tmp_path, monkeypatch):
    prepare(tmp_path / "whole", source, 1, WordEncoder())
    output, log = tmp_path / "out", tmp_path / "log"
    with monkeypatch.context() as patched:
        patched.setattr(binarise, "_merge_all", stop)
        with pytest.raises(KeyboardInterrupt):
            prepare(output, source, 1, WordEncoder())
    part = output / "parts" / "00000002.npz"
    for damaged in (part.read_bytes()[:-9], b"", b"junk" * 9):
        part.write_bytes(damaged)
        with pytest.raises(UserError, match="00000002.npz is damaged .*: remove it and rerun"):
            prepare(output, source, 1, WordEncoder(log))
    part.unlink()
    prepare(output, source, 1, WordEncoder(log))
    assert log.read_text().split() == ["7"]
    assert contents(output) == contents(tmp_path / "whole")


def test_a_finished_folder_is_kept(source, tmp_path):
    first = prepare(tmp_path / "out", source, 1, WordEncoder())
    log = tmp_path / "log"
    assert prepare(tmp_path / "out", source, 1, WordEncoder(log)) == first
    assert not log.exists()


def test_other_settings_and_other_input_are_refused(source, tmp_path):
    output = tmp_path / "out"
    prepare(output, source, 1, WordEncoder())
    before = contents(output)
    with pytest.raises(
        UserError,
        match=r"(?s)other settings or data: .*use --overwrite.*splits: there \['tr",
    ):
        prepare(output, source, 1, WordEncoder(), splits=("train",))
    corpus(source, seed=2)
    with pytest.raises(UserError, match="--train .*: there .* bytes, changed at"):
        prepare(output, source, 1, WordEncoder())
    assert contents(output) == before
    prepare(output, source, 1, WordEncoder(), overwrite=True)
    prepare(tmp_path / "new", source, 1, WordEncoder())
    assert contents(output) == contents(tmp_path / "new") != before


def test_data_of_another_program_are_not_replaced(source, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "dict.txt").write_text("a 1\n")
    with pytest.raises(UserError, match="holds results without a made_of.json: choose .*--overwrite"):
        prepare(tmp_path / "out", source, 1, WordEncoder())
    assert (tmp_path / "out" / "dict.txt").read_text() == "a 1\n"


def test_two_runs_at_once(source, tmp_path, monkeypatch):
    run = start(tmp_path / "out", source, 1, tmp_path / "log")
    until(lambda: (tmp_path / "out" / "parts").exists(), "the first run")
    monkeypatch.setattr(folders, "PATIENCE", 0.1)
    with pytest.raises(UserError, match="another run is at work"):
        prepare(tmp_path / "out", source, 1, WordEncoder())
    assert run.wait() == 0, run.stderr.read()


def test_nothing_in_a_split(source, tmp_path):
    source.write_text("a\n!b\n")
    with pytest.raises(UserError, match=r"nothing is left for valid. Rejected: 1 x a '!' \(see "):
        prepare(tmp_path / "out", source, 1, WordEncoder())
    assert (tmp_path / "out" / "rejected.tsv").exists() and not (tmp_path / "out" / "dict.txt").exists()
    source.write_text("")
    with pytest.raises(UserError, match="input is empty"):
        prepare(tmp_path / "other", source, 1, WordEncoder())


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_the_encoder_is_raised(source, tmp_path, workers):
    source.write_bytes(b"a v\n\xff\n")
    with pytest.raises(UnicodeDecodeError):
        prepare(tmp_path / "out", source, workers, WordEncoder())


def test_ids_of_a_given_dictionary(tmp_path):
    given = tmp_path / "given.txt"
    given.write_text("a 7\nb 5\n")
    sentences = [np.array([4, 5, 2]), np.array([], int), np.array([5, 2])]

    def run(name, made):
        blocks = [Block("x", None)]
        return binarise.binarise(
            tmp_path / name,
            {},
            {},
            lambda: blocks,
            lambda _: EncodedBlock({"train": made}),
            splits=("train",),
            dictionary=given,
        )

    assert run("out", sentences)["train"] == {"sentences": 3, "tokens": 5}
    assert (tmp_path / "out" / "dict.txt").read_bytes() == given.read_bytes()
    read = MMapIndexedDataset(str(tmp_path / "out" / "train"))
    assert [s.tolist() for s in read] == [s.tolist() for s in sentences]
    with pytest.raises(ValueError, match="id 6 is beyond the dictionary's 6 symbols"):
        run("bad", [np.array([4, 6])])
    with pytest.raises(ValueError, match="ids must be from 0"):
        run("worse", [np.array([4, -1])])


def test_a_full_disk(source, tmp_path, monkeypatch):
    """The disk fills up after some parts; with space again the same call succeeds as if nothing happened."""
    prepare(tmp_path / "whole", source, 1, WordEncoder())
    room, sync = [1 + 5], os.fsync  # made_of.json and five parts

    def no_room(descriptor):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    output = tmp_path / "out"
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_room)
        with pytest.raises(UserError, match=f"no space left on the disk of {output / 'parts'}"):
            prepare(output, source, 1, WordEncoder())
        assert len(list(output.glob("parts/*.npz"))) == 5 and not list(output.glob("parts/*.tmp"))
        room[0] = 14 - 5 + 2  # enough for the parts, not for the merging
        with pytest.raises(UserError, match="no space left"):
            prepare(output, source, 1, WordEncoder())
        assert not list(output.glob("*.tmp")) and not (output / "dict.txt").exists()
    prepare(output, source, 1, WordEncoder())
    assert contents(output) == contents(tmp_path / "whole")
