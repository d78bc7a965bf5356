"""Binarisation: fairseq's own bytes, whatever the number of workers and however often it was killed."""

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from fairseq.data import Dictionary
from fairseq.data.indexed_dataset import make_builder
from lib.command_line import UserError

from tests.support.builders import write_file
from tests.support.word_corpus import WordEncoder, prepare


def corpus(path: Path, lines: int = 40, seed: int = 1) -> Path:
    chosen = random.Random(seed)
    words = ["see", "v", "é", "#", "a", "bb", "ccc", "I", '"q"']
    made = [" ".join(chosen.choices(words, k=chosen.randrange(6))) for _ in range(lines)]
    made[::7] = [f"!{line}" for line in made[::7]]
    path.write_text("\n".join([*made, ""]))
    return path


def contents(output: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in output.iterdir() if path.name != "manifest.json"}


def test_bytes_of_fairseq(tmp_path):
    """Against fairseq's own dictionary and builder, over the same sentences."""
    source = corpus(tmp_path / "corpus.txt")
    result = prepare(tmp_path / "out", [source])
    lines = [line for line in source.read_text().split("\n")[:-1] if "!" not in line]
    dictionary = Dictionary.load(str(tmp_path / "out" / "dict.txt"))
    counts = Counter(" ".join(lines).split())
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
    assert json.loads((tmp_path / "out" / "prepared.json").read_text()) == result
    assert result["rejected"] == {"a '!'": 6} and result["symbols"] == len(dictionary)


@pytest.fixture
def sources(tmp_path):
    return [corpus(tmp_path / f"{i}.txt", 12, seed=i) for i in range(4)]


@pytest.fixture
def whole(sources, tmp_path):
    """What a run that nothing stops writes."""
    prepare(tmp_path / "whole", sources)
    return contents(tmp_path / "whole")


class Stops(WordEncoder):
    """Stops in the file of this name."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def __call__(self, path, lines):
        if path.name == self.name and lines[0].line > 1:
            raise KeyboardInterrupt
        return super().__call__(path, lines)


def test_a_stopped_run_resumes_at_its_file(sources, whole, tmp_path):
    output, log = tmp_path / "out", tmp_path / "log"
    for name in ("0.txt", "2.txt"):
        assert not (tmp_path / "out.partial").exists()  # nothing was done
        with pytest.raises(KeyboardInterrupt):
            prepare(output, sources, 1, Stops(name))
    assert not output.exists()
    for change in ({"sources": sources[:3]}, {"sources": sources, "a": 1}):
        with pytest.raises(UserError, match="out.partial holds a run of other settings or data"):
            prepare(output, **change)
    state = sources[1].stat()
    os.utime(sources[1])  # as if written anew, with as many bytes
    with pytest.raises(UserError, match="changed at"):
        prepare(output, sources)
    os.utime(sources[1], ns=(state.st_atime_ns, state.st_mtime_ns))
    prepare(output, sources, 1, WordEncoder(log))
    assert contents(output) == whole and not (tmp_path / "out.partial").exists()
    assert log.read_text().split() == ["2.txt"] * 4 + ["3.txt"] * 4
    with pytest.raises(FileExistsError, match="out exists"):
        prepare(output, sources)


def test_a_foreign_folder_stays(sources, tmp_path):
    thesis = write_file(tmp_path / "mine.partial" / "thesis.txt", "mine")
    with pytest.raises(UserError, match="mine.partial"):
        prepare(tmp_path / "mine", sources)
    assert thesis.read_text() == "mine"


def test_nothing_is_left_of_an_input_that_is_rejected(tmp_path):
    """And its draft is no obstacle to the next command."""
    (tmp_path / "a.txt").write_text("!one\n!two\n")
    with pytest.raises(UserError, match="left for train: .*2 x a '!'"):
        prepare(tmp_path / "out", [tmp_path / "a.txt"])
    prepare(tmp_path / "out", [corpus(tmp_path / "b.txt")], other=1)


@pytest.mark.slow
def test_stopped_while_workers_are_at_work_and_repeated(sources, whole, tmp_path):
    output, log = tmp_path / "out", tmp_path / "log"
    words = (sys.executable, "-m", "tests.support.word_corpus", output, "2", log, *sources)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as run:
        while not (tmp_path / "out.partial" / "draft" / "0").exists():
            assert run.poll() is None
            time.sleep(0.05)
        run.kill()
        run.communicate(timeout=60)  # when the workers have ended
    assert not output.exists()
    log.unlink()
    (tmp_path / "out.partial" / "train.bin.17.tmp").touch()
    prepare(output, sources, 1, WordEncoder(log))
    assert contents(output) == whole and "0.txt" not in log.read_text()
