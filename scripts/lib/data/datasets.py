"""Datasets in fairseq's format."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from fairseq.data import indexed_dataset


def write_dataset(prefix: Path, sentences: Iterable[Sequence[int]], entries: int) -> None:
    """Writes sentences of ids as fairseq's indexed dataset: PREFIX.bin and .idx, such as FOLDER/train.bin
    (the folder is made). The ``entries`` of the dictionary determine the integers' width."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    builder = indexed_dataset.make_builder(f"{prefix}.bin", "mmap", entries)
    for sentence in sentences:
        builder.add_item(torch.as_tensor(sentence))
    builder.finalize(f"{prefix}.idx")
