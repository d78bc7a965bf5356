"""The order of rows by their length, so that a batch holds little padding."""

from collections.abc import Iterator, Sequence

import numpy as np

LENGTH_GROUP = 8  # tokens


def length_keys(lengths: np.ndarray, split: str, group_by_length: bool) -> list[np.ndarray]:
    """Returns the keys by which a split's rows of these lengths in tokens are sorted, before a random order
    decides: keys as ``SortDataset`` takes them, the last of which counts first; none or one array [rows].

    With ``group_by_length`` the training set's rows are grouped too: a batch then has rows of about one
    length, and is no longer a random draw. Of other splits nothing is learned: they always are.
    """
    lengths = np.asarray(lengths)
    if split != "train":
        return [lengths]
    return [lengths // LENGTH_GROUP] if group_by_length else []


def batches_by_length(lengths: Sequence[int], tokens: int) -> Iterator[list[int]]:
    """Yields the numbers of the rows in the order of their lengths, so many at a time that a batch, with
    padding, has at most so many tokens, or one row."""
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    while order:
        size = 1
        while size < len(order) and (size + 1) * lengths[order[size]] <= tokens:
            size += 1
        yield order[:size]
        order = order[size:]
