"""A corpus of words for test_binarise.py; also a program, so that it can be killed.

python -m tests.support.word_corpus OUTPUT WORKERS LOG INPUT...
"""

import sys
import time
from itertools import count
from pathlib import Path
from typing import NamedTuple

from lib.command_line import script
from lib.data import binarise
from lib.data.binarise import EncodedBlock, Rejection
from lib.data.datasets import inputs_of

binarise.BLOCK_ITEMS = 3


class Line(NamedTuple):
    line: int
    content: bytes
    size: int = 1


def read(path: Path):
    return map(Line, count(1), path.read_bytes().splitlines())


class WordEncoder:
    """Words to symbols; lines with a 'v' go to valid; lines with a '!' are rejected."""

    def __init__(self, log: Path | None = None, seconds: float = 0.0):
        self.log, self.seconds = log, seconds

    def __call__(self, path: Path, lines: list[Line]) -> EncodedBlock:
        time.sleep(self.seconds)
        if self.log:
            with self.log.open("a") as log:
                log.write(f"{path.name}\n")
        block = EncodedBlock()
        for number, line, _ in lines:
            text = line.decode()
            if "!" in text:
                block.rejections.append(Rejection(str(number), "a '!': " + text[:1], text))
                continue
            block.sentences.append([*text.split(), "</s>"])
            block.hashes.append(0.25 if "v" in text else 0.75)
        return block


def prepare(output: Path, sources: list[Path], workers: int = 1, encoder=None, **settings):
    with binarise.draft_of(output, settings, inputs_of({"--train": sources})) as folder:
        encoder = encoder or WordEncoder()
        return binarise.binarise(
            folder, sources, [], read, encoder, "words", 0.5, workers, build_dictionary=True
        )


@script
def main() -> None:
    output, workers, log, *sources = sys.argv[1:]
    encoder = WordEncoder(Path(log), seconds=0.1)
    prepare(Path(output), list(map(Path, sources)), int(workers), encoder)
