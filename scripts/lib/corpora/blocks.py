"""What goes in and out of a binarisation: blocks of input, and what an encoder makes of each.

A corpus is cut into blocks by its content alone, never by the number of workers, so that the result does not
depend on who works on what. A block is small (some thousands of records): a pool holds a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Rejection(NamedTuple):
    """A piece of input that is left out; a row of rejected.tsv."""

    place: str  # line number from 1, or key: where to find it in its file
    reason: str
    content: str


class Block(NamedTuple):
    """Consecutive input of one file; pickled on its way to a worker."""

    path: Path
    payload: Any  # what the encoder reads
    weight: int  # the block's share of the progress, in bytes of input


@dataclass
class EncodedBlock:
    """What an encoder makes of a block.

    Attributes:
        splits: {split: its sentences}, of :func:`packed`; sentences end in the end-of-sentence symbol, as
            from fairseq-preprocess. One of that symbol alone is an empty sentence, and is kept.
        rejections: what was left out and why, in the order of the input.
        symbols: the block's own tokens: id i is ``symbols[i]``, and the dictionary is built from the symbols
            of all blocks. None if the ids are those of a given dictionary.
        counts: anything else worth adding up over all blocks and reporting, by name.
    """

    splits: dict[str, tuple[np.ndarray, np.ndarray]]
    rejections: list[Rejection] = field(default_factory=list)
    symbols: list[str] | None = None
    counts: dict[str, int] = field(default_factory=dict)


def packed(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All tokens of some sentences, uint32, and the size of each, int32."""
    tokens = np.concatenate([np.zeros(0, np.uint32), *sentences]).astype(np.uint32)
    return tokens, np.array([len(sentence) for sentence in sentences], np.int32)


# An encoder is pickled once for each worker: a function of a module, or an object with __call__.
Encoder = Callable[[Block], EncodedBlock]
