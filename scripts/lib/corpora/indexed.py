"""Writes fairseq's indexed datasets ("mmap"): PREFIX.bin with the tokens, PREFIX.idx with the sentences.

The files are those of fairseq's MMapIndexedDatasetBuilder, byte for byte (a test compares), but for any
number of sentences: fairseq keeps two Python integers for each, and its merge_file_ adds up their positions
as 32-bit integers, which overflow beyond 2 GiB with NumPy 2.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lib.files import atomic


class IndexedDataset:
    """A dataset that is being written, see :func:`indexed_dataset`."""

    def __init__(self, file, dtype):
        self._file, self._dtype = file, dtype
        self.sizes: list[np.ndarray] = []

    def add(self, tokens: np.ndarray, sizes: np.ndarray | list[int]) -> None:
        """Adds sentences: their tokens joined, and the number of tokens of each."""
        self._file.write(np.asarray(tokens).astype(self._dtype).tobytes())
        self.sizes.append(np.asarray(sizes, np.int32))

    def add_sentences(self, sentences: list[np.ndarray]) -> None:
        if sentences:
            self.add(np.concatenate(sentences), [len(sentence) for sentence in sentences])


@contextmanager
def indexed_dataset(prefix: Path, entries: int) -> Iterator[IndexedDataset]:
    """A dataset to fill; both files get their names when it is complete.

    Args:
        prefix: such as FOLDER/train; the folder is made.
        entries: of the dictionary; it determines the integers' width.
    """
    from fairseq.data.indexed_dataset import MMapIndexedDataset, _dtype_header_code, best_fitting_int_dtype

    dtype = best_fitting_int_dtype(entries)
    prefix.parent.mkdir(parents=True, exist_ok=True)
    with atomic(prefix.with_name(f"{prefix.name}.bin"), "wb") as file:
        dataset = IndexedDataset(file, dtype)
        yield dataset
    count = sum(map(len, dataset.sizes))
    with atomic(prefix.with_name(f"{prefix.name}.idx"), "wb") as file:
        file.write(MMapIndexedDataset.Index._HDR_MAGIC)
        file.write(struct.pack("<QBQ", 1, _dtype_header_code(dtype), count))
        for sizes in dataset.sizes:
            file.write(sizes.tobytes())
        start = 0
        for sizes in dataset.sizes:
            positions, start = sentence_positions(sizes, dtype().itemsize, start)
            file.write(positions.tobytes())


def sentence_positions(sizes: np.ndarray, item_bytes: int, start: int) -> tuple[np.ndarray, int]:
    """Where sentences of these sizes begin in PREFIX.bin, [sentences] int64 bytes, and the next position."""
    ends = start + np.cumsum(sizes.astype(np.int64)) * item_bytes
    positions = np.concatenate([np.array([start], np.int64), ends])
    return positions[:-1], int(positions[-1])
