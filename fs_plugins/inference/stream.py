"""A row of numbers for each text of a stream of any length, in bounded memory: embeddings of text."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from fs_plugins.checkpoint import Checkpoint, load_checkpoint
from fs_plugins.data.length_order import batches_by_length
from fs_plugins.data.text_codecs import encode_text

POOLINGS = ("first", "mean")
MAX_TOKENS = 2048  # the same for every model: rotary positions have no weights that would end before
BATCH_TOKENS = 16384
WINDOW = 4096  # texts that are held at a time; sorted by length among themselves


class StreamModel:
    """A checkpoint that reads texts of one kind.

    Args:
        checkpoint: the model.
        symbols_of: a text as symbols of the dictionary; a ValueError says why it cannot be read.
        batch_tokens: most tokens of a batch, with padding.
        max_tokens: most tokens of a text that are read, with ``<s>`` and ``</s>``. It does not depend on the
            model's --max-positions, so that all models read the same; what is much longer than the samples of
            a model's training may be read badly.
        truncate: read the start of what is longer, instead of refusing it.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        symbols_of: Callable[[str], Sequence[str]],
        *,
        batch_tokens: int = BATCH_TOKENS,
        max_tokens: int = MAX_TOKENS,
        truncate: bool = False,
    ):
        self.checkpoint, self.symbols_of = checkpoint, symbols_of
        self.batch_tokens, self.limit, self.truncate = batch_tokens, max_tokens, truncate
        self.copies = checkpoint.copies  # Repeated MLM reads each token so many times

    @property
    def width(self) -> int:
        """Size of an embedding."""
        return self.checkpoint.model.encoder.sentence_encoder.embed_tokens.embedding_dim

    def encode(self, text: str) -> tuple[Tensor, str]:
        """``<s>``, tokens, ``</s>``, [T] int64, each ``copies`` times; and a remark, or "".

        Raises:
            ValueError: if it cannot be read, or is longer than ``max_tokens``; the message says why.
        """
        words = self.symbols_of(text)
        dictionary = self.checkpoint.dictionary
        indices = [dictionary.index(word) for word in words]
        unknown = sorted({w for w, i in zip(words, indices, strict=True) if i == dictionary.unk()})
        remark = f"unknown tokens {' '.join(unknown)}" if unknown else ""
        tokens = torch.tensor([dictionary.bos(), *indices, dictionary.eos()])
        tokens, remark = self.shorten(tokens, remark)
        return tokens.repeat_interleave(self.copies), remark

    def shorten(self, tokens: Tensor, remark: str = "") -> tuple[Tensor, str]:
        """``tokens`` [T] if they fit; else what fits, with a remark.

        Raises:
            ValueError: if they don't and that is not wanted.
        """
        if len(tokens) <= self.limit:
            return tokens, remark
        what = f"{len(tokens)} tokens with <s> and </s>, {self.limit} are read at most"
        if not self.truncate:
            raise ValueError(what)
        return torch.cat([tokens[: self.limit - 1], tokens[-1:]]), "; ".join(filter(None, [remark, what]))

    def embed(self, texts: Iterable[str], pooling: str = "first") -> Iterator[tuple[np.ndarray | None, str]]:
        """For each, in order, its [width] float32 and a remark; None and the reason where it cannot be read.

        It is the last layer's state of ``<s>`` (of ExLM the first of its states, node 0), or with "mean" the
        mean over the states of its own tokens.

        Raises:
            ValueError: for another pooling.
        """
        if pooling not in POOLINGS:
            raise ValueError(f"unknown pooling {pooling!r}: known are {' and '.join(POOLINGS)}")
        return self._stream(texts, lambda tokens: self._pooled(tokens, pooling))

    def _pooled(self, tokens: Tensor, pooling: str) -> Tensor:
        first = pooling == "first"
        states, extra = self.checkpoint.model(tokens, features_only=True, only_first=first)
        if first:
            return states[:, 0].float()
        read = extra["layout"].tokens if "layout" in extra else tokens
        dictionary = self.checkpoint.dictionary
        own = ~torch.isin(read, read.new_tensor([dictionary.bos(), dictionary.eos(), dictionary.pad()]))
        weights = own.float()[..., None]
        return (states.float() * weights).sum(1) / weights.sum(1)

    def _stream(self, texts: Iterable[str], function) -> Iterator[tuple[np.ndarray | None, str]]:
        source = iter(texts)
        while strings := list(islice(source, WINDOW)):
            encoded, remarks = {}, [""] * len(strings)
            for i, string in enumerate(strings):
                try:
                    encoded[i], remarks[i] = self.encode(string)
                except ValueError as error:
                    remarks[i] = str(error)
            rows = dict(zip(encoded, self.run(list(encoded.values()), function), strict=True))
            yield from ((rows.get(i), remark) for i, remark in enumerate(remarks))

    @torch.inference_mode()
    def run(self, tokens: Sequence[Tensor], function: Callable[[Tensor], Tensor]) -> list[np.ndarray]:
        """A row of ``function``'s result for each text [T], in their order, computed in batches by
        length."""
        rows: list[np.ndarray] = [None] * len(tokens)
        for part in batches_by_length(list(map(len, tokens)), self.batch_tokens):
            batch = torch.nn.utils.rnn.pad_sequence(
                [tokens[i] for i in part], True, self.checkpoint.dictionary.pad()
            )
            values = function(batch.to(self.checkpoint.device)).float().cpu().numpy()
            for i, row in zip(part, values, strict=True):
                rows[i] = row
        return rows


def load_text_model(
    checkpoint: str | os.PathLike,
    *,
    data: str | os.PathLike | None = None,
    bpe: str | Sequence[str] | None = None,
    device: str | None = None,
    **options,
) -> StreamModel:
    """A checkpoint that reads text, pre-trained on text or fine-tuned.

    >>> model = load_text_model("checkpoints/exlm/checkpoint_best.pt")
    >>> [(vector, remark)] = model.embed(["This is good news."])  # [width] float32, and what there is to say

    Args:
        checkpoint: a file that fairseq-train saved.
        data, bpe, device: as of :func:`fs_plugins.inference.load`; of a fine-tuned checkpoint, ``data`` is
            the folder that its pre-training had.
        options: those of :class:`StreamModel`.

    Raises:
        FileNotFoundError: if the checkpoint, the dictionary or a file of the BPE is not there.
        ValueError: for another kind of checkpoint, another dictionary, or a device that does not exist.
    """
    loaded = load_checkpoint(checkpoint, data, device)
    if loaded.data is None:
        raise ValueError(f"{checkpoint} reads molecules: use fs_plugins.inference.molecules.MoleculeModel")
    codec = loaded.codec(bpe)

    def symbols_of(text: str) -> Sequence[str]:
        if symbols := encode_text(text.strip(), codec):
            return symbols
        raise ValueError("there is no text")

    return StreamModel(loaded, symbols_of, **options)
