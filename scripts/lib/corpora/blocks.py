"""What goes in and out of a binarisation: blocks of input, and what an encoder makes of each.

A corpus is cut into blocks by its content alone, never by the number of workers, so that the result does not
depend on who works on what. A block is small (some thousands of records): a pool holds a few at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np


class Record(NamedTuple):
    """One piece of input: a line of text, the SMILES of a row, ..."""

    place: str  # line number from 1, or key: where to find it in its file
    content: bytes  # as in the file; the encoder decodes it
    fault: str = ""  # why the reader could not get the content; such a record is to be rejected


class Rejection(NamedTuple):
    """A piece of input that is left out; a row of rejected.tsv."""

    place: str
    reason: str
    content: str


@dataclass(frozen=True)
class Block:
    """Consecutive input of one file; pickled on its way to a worker.

    Attributes:
        source: the file, as rejected.tsv names it.
        payload: what the encoder reads: a list of Records, or what it needs to fetch them from the file.
        weight: the block's share of the progress, in bytes of input.
    """

    source: str
    payload: Any
    weight: int = 0


@dataclass
class EncodedBlock:
    """What an encoder makes of a block.

    Attributes:
        splits: {split: sentences}, each an integer array [T] of token ids with the end-of-sentence symbol, in
            the order of the input. An array of that symbol alone, or an empty one, is an empty sentence, and
            is kept.
        rejections: what was left out and why, in the order of the input.
        symbols: the block's own tokens: id i is ``symbols[i]``, and the dictionary is built from the symbols
            of all blocks. None if the ids are those of a given dictionary.
        counts: anything else worth adding up over all blocks and reporting, by name.
    """

    splits: dict[str, list[np.ndarray]]
    rejections: list[Rejection] = field(default_factory=list)
    symbols: list[str] | None = None
    counts: dict[str, int] = field(default_factory=dict)


# An encoder is pickled once for each worker: a function of a module, or an object with __call__.
Encoder = Callable[[Block], EncodedBlock]


def encode_packed(encode: Encoder, entries: int | None, numbered: tuple[int, Block]) -> EncodedBlock:
    """An encoded block as workers return it: each split is (all tokens, uint32; sizes [sentences], int32).

    Args:
        entries: of the given dictionary; None without one.
        numbered: the number of the file, and the block.

    Raises:
        ValueError: for an encoder's mistake: an id that is negative, or has no symbol.
    """
    encoded = encode(numbered[1])
    limit = entries if encoded.symbols is None else len(encoded.symbols)
    for split, sentences in encoded.splits.items():
        tokens = np.concatenate([np.zeros(0, np.int64), *sentences]).astype(np.int64)
        if (bad := tokens[(tokens < 0) | (tokens >= limit)]).size:
            raise ValueError(f"{split} of {numbered[1].source}: id {bad[0]} is not one of {limit} symbols")
        sizes = np.array([len(sentence) for sentence in sentences], np.int32)
        encoded.splits[split] = (tokens.astype(np.uint32), sizes)
    return encoded
