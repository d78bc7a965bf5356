"""From parts to what fairseq trains on: dict.txt, and for each split SPLIT.bin and SPLIT.idx ("mmap").

The files are those that fairseq's MMapIndexedDatasetBuilder writes, byte for byte (a test compares), but in
bounded memory: fairseq keeps two Python integers for every sentence, and its merge_file_ adds up the places
of sentences as 32-bit integers, which under NumPy 2 overflow beyond 2 GiB.
"""

from __future__ import annotations

import csv
import io
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from recipes.corpora.blocks import write_atomically
from recipes.corpora.parts import Part, read_part


def build_dictionary(parts: Callable[[], Iterator[Part]]):
    """fairseq's Dictionary of all parts' symbols: the most frequent first, then in order of characters."""
    from fairseq.data import Dictionary

    dictionary, counts = Dictionary(), Counter()
    for part in parts():
        for symbol, count in zip(part.symbols, part.symbol_counts.tolist(), strict=True):
            counts[symbol] += count
    for symbol, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        if symbol not in dictionary and count:  # </s> and its like are there from the start
            dictionary.add_symbol(symbol, n=count)
    return dictionary


def write_dictionary(dictionary, path: Path) -> None:
    text = io.StringIO()
    dictionary.save(text)
    write_atomically(path, lambda file: file.write(text.getvalue().encode()))


def global_ids(part: Part, tokens: np.ndarray, dictionary) -> np.ndarray:
    """A part's tokens as ids of the dictionary.

    Raises:
        ValueError: if an encoder that was given the dictionary gave ids which it does not have.
    """
    if part.symbols is not None:
        table = np.array([dictionary.index(symbol) for symbol in part.symbols], np.int64)
        return table[tokens]
    if tokens.size and tokens.max() >= len(dictionary):
        raise ValueError(
            f"{part.source}: id {tokens.max()} is beyond the dictionary's {len(dictionary)} symbols"
        )
    return tokens


def write_split(prefix: Path, split: str, parts: Callable[[], Iterator[Part]], dictionary) -> tuple[int, int]:
    """Writes PREFIX.bin and PREFIX.idx; returns the number of sentences and of tokens."""
    from fairseq.data.indexed_dataset import MMapIndexedDataset, _dtype_header_code, best_fitting_int_dtype

    dtype = best_fitting_int_dtype(len(dictionary))
    sentences = total = 0

    def write_tokens(file):
        nonlocal sentences, total
        for part in parts():
            tokens, sizes = part.split(split)
            file.write(global_ids(part, tokens, dictionary).astype(dtype).tobytes())
            sentences, total = sentences + len(sizes), total + len(tokens)

    def write_index(file):
        file.write(MMapIndexedDataset.Index._HDR_MAGIC)
        file.write(struct.pack("<QBQ", 1, _dtype_header_code(dtype), sentences))
        for part in parts():
            file.write(part.split(split)[1].astype(np.int32).tobytes())
        start = 0
        for part in parts():
            places, start = sentence_places(part.split(split)[1], dtype().itemsize, start)
            file.write(places.tobytes())

    prefix.parent.mkdir(exist_ok=True)  # of a shard
    write_atomically(prefix.with_name(f"{prefix.name}.bin"), write_tokens)
    write_atomically(prefix.with_name(f"{prefix.name}.idx"), write_index)
    return sentences, total


def sentence_places(sizes: np.ndarray, item_bytes: int, start: int) -> tuple[np.ndarray, int]:
    """Where sentences of these sizes begin in SPLIT.bin, [sentences] int64 bytes, and where the next does."""
    ends = start + np.cumsum(sizes.astype(np.int64)) * item_bytes
    places = np.concatenate([np.array([start], np.int64), ends])
    return places[:-1], int(places[-1])


def write_rejections(path: Path, parts: Callable[[], Iterator[Part]]) -> Counter:
    """Writes rejected.tsv (a header even if nothing was rejected); returns how many there were by reason.

    A reason is counted without what follows its first colon, which is about the one input.
    """
    reasons = Counter()

    def write(file):
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        rows = csv.writer(text, dialect="excel-tab", lineterminator="\n")
        rows.writerow(["file", "line", "reason", "input"])
        for part in parts():
            for rejection in part.rejections:
                reasons[rejection.reason.split(":")[0]] += 1
                rows.writerow([part.source, *rejection])
        text.flush()
        text.detach()

    write_atomically(path, write)
    return reasons


def reader_of(paths: list[Path]) -> Callable[[], Iterator[Part]]:
    """Reads the parts one after another, as often as it is called."""
    return lambda: map(read_part, paths)
