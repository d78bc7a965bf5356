"""Parts: the result of one block each as a file, so that an interrupted run need not do it again.

A part is an uncompressed .npz of plain arrays: for each split its tokens (all sentences joined) and their
sizes, the block's symbols and how often each occurs, and the rejections as JSON. A part with the wrong
fingerprint counts as none.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from recipes.corpora.blocks import Block, EncodedBlock, Rejection, write_atomically


@dataclass
class Part:
    """A part as read; tokens and sizes are read when they are asked for."""

    path: Path
    source: str
    symbols: list[str] | None
    symbol_counts: np.ndarray  # [symbols] int64: how often each occurs, over all splits
    rejections: list[Rejection]
    counts: dict[str, int]

    def split(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Tokens [all of the split] and sizes [sentences], both integers; empty where there are none."""
        with np.load(self.path, allow_pickle=False) as arrays:
            if f"{name}.tokens" not in arrays:
                return np.zeros(0, np.uint8), np.zeros(0, np.int32)
            return arrays[f"{name}.tokens"], arrays[f"{name}.sizes"]


def part_fingerprint(settings: str, block: Block) -> str:
    """What a part is made of: the settings and the block's content."""
    digest = hashlib.sha256(settings.encode())
    digest.update(block.source.encode() + b"\0" + block.identity)
    return digest.hexdigest()


def _as_bytes(value) -> np.ndarray:
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def _smallest(ids: np.ndarray) -> np.ndarray:
    """The same ids in the fewest bytes: parts take disk space beside the result."""
    highest = int(ids.max(initial=0))
    return ids.astype(next(t for t in (np.uint8, np.uint16, np.uint32) if highest <= np.iinfo(t).max))


def write_part(path: Path, block: Block, encoded: EncodedBlock, fingerprint: str) -> None:
    """Writes a part, atomically.

    Raises:
        ValueError: for an encoder's mistake: an id that is negative, too large or has no symbol.
    """
    arrays = {"fingerprint": _as_bytes(fingerprint)}
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
        "rejections": [list(r) for r in encoded.rejections],
        "counts": encoded.counts,
    }
    arrays |= {"symbol_counts": used, "about": _as_bytes(about)}
    packed = io.BytesIO()  # in memory first: zipfile hides the error of a full disk behind its own
    np.savez(packed, **arrays)
    write_atomically(path, lambda file: file.write(packed.getbuffer()))


def has_fingerprint(path: Path, fingerprint: str) -> bool:
    """Whether the part is there, whole, and made of this."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return json.loads(arrays["fingerprint"].tobytes()) == fingerprint
    except (FileNotFoundError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return False


def read_part(path: Path) -> Part:
    with np.load(path, allow_pickle=False) as arrays:
        about = json.loads(arrays["about"].tobytes())
        return Part(
            path=path,
            source=about["source"],
            symbols=about["symbols"],
            symbol_counts=arrays["symbol_counts"],
            rejections=[Rejection(*r) for r in about["rejections"]],
            counts=about["counts"],
        )
