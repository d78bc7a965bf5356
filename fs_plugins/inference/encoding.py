"""A text or a SMILES as ids of a model's dictionary, with a remark on what to be wary of."""

from collections.abc import Sequence

import torch
from torch import Tensor

from fs_plugins.checkpoint import Checkpoint
from fs_plugins.data.molecules import canonical_smiles, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.text_codecs import Codec, Smiles, encode_text

MAX_TOKENS = 2048  # the same for every model: rotary positions have no weights that would end before


class Encoder:
    """How a model reads texts without masks.

    Args:
        checkpoint: the model.
        codec: how its corpus was written.
        max_tokens: most tokens of a text that are read, with ``<s>`` and ``</s>``. It does not depend on the
            model's --max-positions, so that all models read the same; what is much longer than the samples of
            a model's training may be read badly.
        truncate: read the start of what is longer, instead of refusing it.
        canonical, allow_valence: how SMILES are read; by default as they were for the fine-tuning, else in
            RDKit's canonical form and with its rules of valence.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        codec: Codec,
        *,
        max_tokens: int = MAX_TOKENS,
        truncate: bool = False,
        canonical: bool | None = None,
        allow_valence: bool | None = None,
    ):
        self.dictionary, self.codec, self.truncate = checkpoint.dictionary, codec, truncate
        self.copies = checkpoint.copies  # Repeated MLM reads each token so many times
        info = checkpoint.properties
        self.canonical = canonical if canonical is not None else info is None or info.canonical
        allowed = info is not None and info.allow_valence
        self.allow_valence = allow_valence if allow_valence is not None else allowed
        asked = getattr(checkpoint.cfg.task, "tokens_per_molecule", None) if info else None
        self.limit = min(max_tokens, asked or max_tokens)  # what the fine-tuning read, where it was limited

    def symbols(self, text: str) -> Sequence[str]:
        """Its symbols; raises ValueError if it cannot be read."""
        if isinstance(self.codec, Smiles):
            molecule = parse_molecule(text, self.allow_valence)
            return tokenize(canonical_smiles(molecule, text) if self.canonical else text)
        if symbols := encode_text(text.strip(), self.codec):
            return symbols
        raise ValueError("there is no text")

    def encode(self, text: str | tuple[str, str]) -> tuple[Tensor, str]:
        """``<s> A </s>``, or of a pair ``<s> A </s> </s> B </s>``: [T] int64, each token ``copies`` times;
        and a remark, or "".

        Raises:
            ValueError: if it cannot be read, or is longer than ``max_tokens``; the message says why.
        """
        dictionary, ids, unknown = self.dictionary, [self.dictionary.bos()], set()
        for i, part in enumerate([text] if isinstance(text, str) else text):
            symbols = self.symbols(part)
            indices = [dictionary.index(symbol) for symbol in symbols]
            unknown |= {s for s, index in zip(symbols, indices, strict=True) if index == dictionary.unk()}
            ids += [*([dictionary.eos()] if i else []), *indices, dictionary.eos()]
        remarks = [f"unknown tokens {' '.join(sorted(unknown))}"] if unknown else []
        if len(ids) > self.limit:
            remarks.append(f"{len(ids)} tokens with <s> and </s>, {self.limit} are read at most")
            if not self.truncate:
                raise ValueError(remarks[-1])
            ids = [*ids[: self.limit - 1], ids[-1]]
        return torch.tensor(ids).repeat_interleave(self.copies), "; ".join(remarks)
