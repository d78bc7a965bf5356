"""Writes fairseq's indexed datasets ("mmap"): PREFIX.bin with the tokens, PREFIX.idx with the sentences.

The files are those of fairseq's MMapIndexedDatasetBuilder, byte for byte (a test compares), but for any
number of sentences: fairseq keeps two Python integers for each.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from lib.files import atomic


def packed(sentences: Sequence[Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """All tokens of some sentences, uint32, and the size of each, int32."""
    tokens = np.concatenate([np.zeros(0, np.uint32), *sentences]).astype(np.uint32)
    return tokens, np.array([len(sentence) for sentence in sentences], np.int32)


@contextmanager
def indexed_dataset(prefix: Path, entries: int) -> Iterator[Callable[[np.ndarray, np.ndarray], None]]:
    """A dataset to fill; both files get their names when it is complete.

    Args:
        prefix: such as FOLDER/train; the folder is made.
        entries: of the dictionary; it determines the integers' width.

    Yields:
        a function that adds sentences, as of :func:`packed`.
    """
    from fairseq.data.indexed_dataset import MMapIndexedDataset, _dtype_header_code, best_fitting_int_dtype

    dtype = best_fitting_int_dtype(entries)
    all_sizes = [np.zeros(0, np.int32)]

    def add(tokens: np.ndarray, sizes: np.ndarray) -> None:
        file.write(np.asarray(tokens).astype(dtype).tobytes())
        all_sizes.append(np.asarray(sizes, np.int32))

    prefix.parent.mkdir(parents=True, exist_ok=True)
    with atomic(prefix.with_name(f"{prefix.name}.bin"), "wb") as file:
        yield add
    sizes = np.concatenate(all_sizes)
    lengths = sizes.astype(np.int64) * dtype().itemsize  # in bytes; fairseq's 32 bits overflow beyond 2 GiB
    with atomic(prefix.with_name(f"{prefix.name}.idx"), "wb") as file:
        file.write(MMapIndexedDataset.Index._HDR_MAGIC)
        file.write(struct.pack("<QBQ", 1, _dtype_header_code(dtype), len(sizes)))
        file.write(sizes.tobytes())
        file.write((np.cumsum(lengths) - lengths).tobytes())
