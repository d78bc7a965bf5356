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
from lib.command_line import UserError
from lib.corpora import binarise
from lib.corpora.blocks import Block, EncodedBlock

from tests.makers import word_corpus
from tests.makers.word_corpus import WordEncoder, prepare

TOY = Path(word_corpus.__file__)
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
    prepare(tmp_path / "out", [source])
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
    prepare(tmp_path / "out", [source])
    assert [len(s) for s in MMapIndexedDataset(str(tmp_path / "out" / "train"))] == [1, 2, 1]


def test_rejected_and_report(source, tmp_path):
    source.write_text('a v\nb\n!c\t"d"\ne!\n')
    result = prepare(tmp_path / "out", [source])
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


@pytest.fixture
def sources(tmp_path):
    return [corpus(tmp_path / f"{i}.txt", 12, seed=i) for i in range(4)]


@pytest.fixture
def whole(sources, tmp_path):
    """What a run that nothing stops writes."""
    prepare(tmp_path / "whole", sources)
    return contents(tmp_path / "whole")


@pytest.fixture
def stopped(sources, tmp_path, monkeypatch):
    """A folder whose run was stopped in its third file."""

    class Stops(WordEncoder):
        def __call__(self, block):
            if block.source == "2.txt" and block.payload[0][0] > 1:
                raise KeyboardInterrupt
            return super().__call__(block)

    monkeypatch.setattr(binarise, "SAVE_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        prepare(tmp_path / "out", sources, 1, Stops())
    assert not any((tmp_path / "out" / name).exists() for name in FILES)
    return tmp_path / "out"


@pytest.mark.parametrize("workers", [2, 3])
def test_workers_change_nothing(workers, sources, whole, tmp_path):
    prepare(tmp_path / "out", sources, workers)
    assert contents(tmp_path / "out") == whole


def test_a_stopped_run_resumes_at_its_file(stopped, sources, whole, tmp_path):
    prepare(stopped, sources, 1, WordEncoder(tmp_path / "log"))
    assert contents(stopped) == whole and not (stopped / "draft").exists()
    assert (tmp_path / "log").read_text().split() == ["2.txt"] * 4 + ["3.txt"] * 4


def test_a_damaged_draft_is_named(stopped, sources, whole):
    os.truncate(stopped / "draft" / "train.tokens", 3)
    with pytest.raises(UserError, match="train.tokens is damaged: rerun the same command with --overwrite"):
        prepare(stopped, sources)
    prepare(stopped, sources, overwrite=True)
    assert contents(stopped) == whole


def start(output, sources, workers, log):
    scripts = TOY.parents[2] / "scripts"
    return subprocess.Popen(
        [sys.executable, TOY, output, str(workers), log, *sources],
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


def until(condition, what: str):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    raise AssertionError(f"waited in vain for {what}")


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_and_repeated(sources, whole, tmp_path, workers):
    output, log = tmp_path / "out", tmp_path / "log"
    run = start(output, sources, workers, log)
    until(lambda: (output / "draft" / "saved.json").exists(), "the first file")
    offspring = children(run.pid)
    os.kill(run.pid, signal.SIGKILL)
    run.wait()
    assert not any((output / name).exists() for name in FILES)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in offspring), "the end of the workers")
    log.unlink()
    run = start(output, sources, 3 - workers, log)
    assert run.wait() == 0, run.stderr.read()
    assert contents(output) == whole and "0.txt" not in log.read_text()


def test_a_killed_worker_is_an_error(sources, tmp_path):
    run = start(tmp_path / "out", sources, 2, tmp_path / "log")
    until(lambda: (tmp_path / "log").exists(), "a worker")
    for pid in children(run.pid):
        if Path(f"/proc/{pid}/cmdline").read_bytes().count(b"forkserver"):
            os.kill(pid, signal.SIGKILL)
    assert run.wait(60) == 1
    assert "a worker was killed, most likely because memory ran out" in run.stderr.read()


def test_a_finished_folder_is_kept(source, tmp_path):
    first, log = prepare(tmp_path / "out", [source]), tmp_path / "log"
    assert prepare(tmp_path / "out", [source], 1, WordEncoder(log)) == first and not log.exists()


def test_other_settings_and_other_input_are_refused(source, tmp_path):
    output = tmp_path / "out"
    prepare(output, [source])
    before = contents(output)
    with pytest.raises(
        UserError,
        match=r"(?s)other settings or data: .*use --overwrite.*splits: there \['tr",
    ):
        prepare(output, [source], splits=("train",))
    corpus(source, seed=2)
    with pytest.raises(UserError, match="--train .*: there .* bytes, changed at"):
        prepare(output, [source])
    assert contents(output) == before
    prepare(output, [source], overwrite=True)
    prepare(tmp_path / "new", [source])
    assert contents(output) == contents(tmp_path / "new") != before


def test_nothing_in_a_split(source, tmp_path):
    source.write_text("a\n!b\n")
    with pytest.raises(UserError, match=r"nothing is left for valid. Rejected: 1 x a '!' \(see "):
        prepare(tmp_path / "out", [source])
    assert (tmp_path / "out" / "rejected.tsv").exists() and not (tmp_path / "out" / "dict.txt").exists()
    source.write_text("")
    with pytest.raises(UserError, match="input is empty"):
        prepare(tmp_path / "other", [source])


@pytest.mark.parametrize("workers", [1, 2])
def test_an_error_in_the_encoder_is_raised(source, tmp_path, workers):
    source.write_bytes(b"a v\n\xff\n")
    with pytest.raises(UnicodeDecodeError):
        prepare(tmp_path / "out", [source], workers)


def test_ids_of_a_given_dictionary(tmp_path):
    given = tmp_path / "given.txt"
    given.write_text("a 7\nb 5\n")
    sentences = [np.array([4, 5, 2]), np.array([], int), np.array([5, 2])]

    def run(name, made):
        return binarise.binarise(
            tmp_path / name,
            {},
            {},
            [given],
            lambda path: [Block("x", None)],
            lambda block: EncodedBlock({"train": made}),
            splits=("train",),
            dictionary=given,
        )

    assert run("out", sentences)["train"] == {"sentences": 3, "tokens": 5}
    assert (tmp_path / "out" / "dict.txt").read_bytes() == given.read_bytes()
    read = MMapIndexedDataset(str(tmp_path / "out" / "train"))
    assert [s.tolist() for s in read] == [s.tolist() for s in sentences]
    with pytest.raises(ValueError, match="train of x: id 6 is not one of 6 symbols"):
        run("bad", [np.array([4, 6])])
    with pytest.raises(ValueError, match="id -1 is not one of"):
        run("worse", [np.array([4, -1])])


def test_a_full_disk(sources, whole, tmp_path, monkeypatch):
    """The disk fills up after the first file, then while merging; with space the same call goes on."""
    output, sync, room = tmp_path / "out", os.fsync, [9]  # the manifest; five streams and their state; three

    def no_room(descriptor):
        room[0] -= 1
        if room[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(binarise, "SAVE_SECONDS", 0)
        patched.setattr(os, "fsync", no_room)
        with pytest.raises(UserError, match=f"no space left on the disk of {output / 'draft'}"):
            prepare(output, sources)
        room[0] = 3 * 6 + 2  # enough for the draft, not for the merging
        with pytest.raises(UserError, match="no space left"):
            prepare(output, sources)
        assert not list(output.glob("*.tmp")) and not (output / "dict.txt").exists()
    prepare(output, sources)
    assert contents(output) == whole
