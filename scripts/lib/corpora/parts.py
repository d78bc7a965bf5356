"""Parts: the result of each block in a file, so that an interrupted run does not repeat it.

A part is an uncompressed .npz: for each split its tokens (all sentences joined) and their sizes, how often
each of the block's symbols occurs, and the rest as JSON.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.command_line import UserError
from lib.corpora.blocks import Block, EncodedBlock, Rejection
from lib.files import atomic


@dataclass
class Part:
    """A part as read, without its sentences."""

    path: Path
    source: str
    symbols: list[str] | None
    symbol_counts: np.ndarray  # [symbols] int64: how often each occurs, over all splits
    sentences: dict[str, int]  # by split
    rejections: list[Rejection]
    counts: dict[str, int]

    def split(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Tokens [all of the split] and sizes [sentences], both integers; empty if the part has none."""
        if name not in self.sentences:
            return np.zeros(0, np.uint8), np.zeros(0, np.int32)
        with np.load(self.path, allow_pickle=False) as arrays:
            return arrays[f"{name}.tokens"], arrays[f"{name}.sizes"]


def _smallest(ids: np.ndarray) -> np.ndarray:
    """The same ids in the fewest bytes: parts take disk space beside the result."""
    highest = int(ids.max(initial=0))
    return ids.astype(next(t for t in (np.uint8, np.uint16, np.uint32) if highest <= np.iinfo(t).max))


def write_part(path: Path, block: Block, encoded: EncodedBlock) -> None:
    """Writes a part, atomically.

    Raises:
        ValueError: for an encoder's mistake: an id that is negative, too large or has no symbol.
    """
    arrays = {}
    used = np.zeros(len(encoded.symbols or ()), np.int64)
    for split, sentences in encoded.splits.items():
        tokens = np.concatenate([np.zeros(0, np.int64), *sentences]).astype(np.int64)
        limit = 2**32 if encoded.symbols is None else len(encoded.symbols)
        if tokens.size and not (tokens.min() >= 0 and tokens.max() < limit):
            raise ValueError(f"split {split} of {block.source}: ids must be from 0 to {limit - 1}")
        if encoded.symbols is not None:
            used += np.bincount(tokens, minlength=len(used))
        arrays[f"{split}.tokens"] = _smallest(tokens)
        arrays[f"{split}.sizes"] = np.array([len(s) for s in sentences], np.int32)
    about = {
        "source": block.source,
        "symbols": encoded.symbols,
        "sentences": {split: len(sentences) for split, sentences in encoded.splits.items()},
        "rejections": encoded.rejections,
        "counts": encoded.counts,
    }
    packed = io.BytesIO()  # in memory first: zipfile hides the error of a full disk behind its own
    about = np.frombuffer(json.dumps(about).encode(), np.uint8)
    np.savez(packed, **arrays, symbol_counts=used, about=about)
    with atomic(path, "wb") as file:
        file.write(packed.getbuffer())


def read_part(path: Path) -> Part:
    """Raises UserError for a damaged part."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            about["rejections"] = [Rejection(*r) for r in about["rejections"]]
            return Part(path=path, symbol_counts=arrays["symbol_counts"], **about)
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is damaged ({error}): remove it and rerun the same command") from error
