"""A row of numbers for each text of a stream of any length, in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from fs_plugins.data.length_order import batches_by_length

BATCH_TOKENS = 16384
WINDOW = 4096  # texts that are held at a time; sorted by length among themselves

Row = tuple[np.ndarray | None, str]  # of numbers, and a remark; None and the reason for an unreadable text


def stream(
    texts: Iterable, encode: Callable, compute: Callable[[Sequence[Tensor]], list[np.ndarray]]
) -> Iterator[Row]:
    """A row for each text, in order.

    Args:
        encode: of a text its tokens [T] and a remark; a ValueError says why it cannot be read.
        compute: a row for each of some texts' tokens.
    """
    source = iter(texts)
    while window := list(islice(source, WINDOW)):
        encoded, remarks = {}, [""] * len(window)
        for i, text in enumerate(window):
            try:
                encoded[i], remarks[i] = encode(text)
            except ValueError as error:
                remarks[i] = str(error)
        rows = dict(zip(encoded, compute(list(encoded.values())), strict=True))
        yield from ((rows.get(i), remark) for i, remark in enumerate(remarks))


@torch.inference_mode()
def in_batches(
    tokens: Sequence[Tensor], function: Callable[[Tensor], Tensor], pad: int, batch_tokens: int, device
) -> list[np.ndarray]:
    """A row of ``function``'s result [B, ...] for each text [T], in their order, computed in batches by
    length of at most ``batch_tokens`` tokens, with padding."""
    rows: list[np.ndarray] = [None] * len(tokens)
    for part in batches_by_length(list(map(len, tokens)), batch_tokens):
        batch = torch.nn.utils.rnn.pad_sequence([tokens[i] for i in part], True, pad)
        values = function(batch.to(device)).float().cpu().numpy()
        for i, row in zip(part, values, strict=True):
            rows[i] = row
    return rows
