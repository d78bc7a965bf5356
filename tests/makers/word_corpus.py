"""A corpus of words for test_binarise.py; also a program, so that it can be killed.

python word_corpus.py OUTPUT WORKERS LOG INPUT...
"""

import sys
import time
from pathlib import Path

from lib.corpora import binarise
from lib.corpora.binarise import Block, EncodedBlock, Rejection
from lib.corpora.indexed import packed

LINES_OF_A_BLOCK = 3


def blocks(path: Path):
    lines = path.read_bytes().splitlines()
    for first in range(0, len(lines), LINES_OF_A_BLOCK):
        chosen = lines[first : first + LINES_OF_A_BLOCK]
        yield Block(path, [(first + i + 1, line) for i, line in enumerate(chosen)], sum(map(len, chosen)))


class WordEncoder:
    """Words to ids of symbols of its own; lines with a 'v' go to valid; lines with a '!' are rejected."""

    def __init__(self, log: Path | None = None, seconds: float = 0.0):
        self.log, self.seconds = log, seconds

    def __call__(self, block: Block) -> EncodedBlock:
        time.sleep(self.seconds)
        if self.log:
            with self.log.open("a") as log:
                log.write(f"{block.path.name}\n")
        symbols, splits, rejections = ["</s>"], {"train": [], "valid": []}, []
        for place, line in block.payload:
            text = line.decode()
            if "!" in text:
                rejections.append(Rejection(str(place), "a '!': " + text[:1], text))
                continue
            words = [*text.split(), "</s>"]
            symbols += [word for word in dict.fromkeys(words) if word not in symbols]
            splits["valid" if "v" in text else "train"].append([symbols.index(word) for word in words])
        return EncodedBlock({split: packed(found) for split, found in splits.items()}, rejections, symbols)


def prepare(output: Path, sources: list[Path], workers: int = 1, encoder=None, **options):
    settings, inputs = options.pop("settings", {}), binarise.states_of({"--train": sources})
    encoder = encoder or WordEncoder()
    return binarise.binarise(output, settings, inputs, sources, blocks, encoder, workers=workers, **options)


if __name__ == "__main__":
    output, workers, log, *sources = sys.argv[1:]
    prepare(Path(output), list(map(Path, sources)), int(workers), WordEncoder(Path(log), seconds=0.1))
