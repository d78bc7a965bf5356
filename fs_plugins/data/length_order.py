"""The order of rows by their length, so that a batch holds little padding."""

from collections.abc import Iterator, Sequence


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
