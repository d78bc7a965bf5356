"""Properties and embeddings of molecules given as SMILES, a stream of any length in bounded memory."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from fs_plugins.analysis.checkpoint import Checkpoint
from fs_plugins.data.molecules import canonical_smiles, parse_molecule
from fs_plugins.data.property_info import PropertyInfo
from fs_plugins.data.smiles_tokens import tokenize

POOLINGS = ("first", "mean")
BATCH_TOKENS = 16384
WINDOW = 4096


class MoleculeModel:
    """A checkpoint that reads SMILES.

    Args:
        checkpoint: fine-tuned with ``--task molecule_property``, or, for embeddings, any of SMILES.
        batch_tokens: most tokens of a batch, with padding.
        window: molecules that are held at a time; sorted by length among themselves.
        truncate: read the start of molecules longer than the model's positions, instead of refusing them.
        canonical, allow_valence: how SMILES are read; by default as they were for the fine-tuning, else in
            RDKit's canonical form and with its rules of valence.

    Attributes:
        properties: what it predicts, a PropertyInfo; None for a model that was not fine-tuned.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        batch_tokens: int = BATCH_TOKENS,
        window: int = WINDOW,
        truncate: bool = False,
        canonical: bool | None = None,
        allow_valence: bool | None = None,
    ):
        if batch_tokens < 1 or window < 1:
            raise ValueError(f"batch_tokens and window must be at least 1, got {batch_tokens} and {window}")
        self.checkpoint, self.batch_tokens, self.window = checkpoint, batch_tokens, window
        self.truncate = truncate
        held = checkpoint.task_state.get("molecule_property")
        info = self.properties = PropertyInfo.from_dict(held) if held else None
        self.canonical = canonical if canonical is not None else info is None or info.canonical
        allowed = info is not None and info.allow_valence
        self.allow_valence = allow_valence if allow_valence is not None else allowed
        self.limit = checkpoint.model.max_positions()
        asked = getattr(checkpoint.cfg.task, "tokens_per_molecule", None) if held else None
        self.limit = min(self.limit, asked or self.limit)

    @property
    def head(self) -> str:
        """Name of the classification head.

        Raises:
            ValueError: if the checkpoint predicts no properties.
        """
        heads = list(self.checkpoint.model.classification_heads)
        if self.properties is None or len(heads) != 1:
            raise ValueError(
                f"{self.checkpoint.path} predicts no properties: that does a checkpoint fine-tuned with "
                "--task molecule_property (scripts/finetune_moleculenet.sh)"
            )
        return heads[0]

    @property
    def width(self) -> int:
        """Size of an embedding."""
        return self.checkpoint.model.encoder.sentence_encoder.embed_tokens.embedding_dim

    def encode(self, smiles: str) -> tuple[Tensor, str]:
        """``<s>``, tokens, ``</s>``, [T] int64, and a remark ("" where there is nothing to say).

        Raises:
            ValueError: if it is no molecule, or longer than the model's positions; the message says why.
        """
        molecule = parse_molecule(smiles, self.allow_valence)
        words = tokenize(canonical_smiles(molecule, smiles) if self.canonical else smiles)
        dictionary = self.checkpoint.dictionary
        indices = [dictionary.index(word) for word in words]
        unknown = sorted({w for w, i in zip(words, indices, strict=True) if i == dictionary.unk()})
        remark = f"unknown tokens {' '.join(unknown)}" if unknown else ""
        tokens = torch.tensor([dictionary.bos(), *indices, dictionary.eos()])
        return self.shorten(tokens, remark)

    def shorten(self, tokens: Tensor, remark: str = "") -> tuple[Tensor, str]:
        """``tokens`` [T] if they fit; else what fits, with a remark.

        Raises:
            ValueError: if they don't and that is not wanted.
        """
        if len(tokens) <= self.limit:
            return tokens, remark
        what = f"{len(tokens)} tokens with <s> and </s>, the model reads up to {self.limit}"
        if not self.truncate:
            raise ValueError(what)
        return torch.cat([tokens[: self.limit - 1], tokens[-1:]]), "; ".join(filter(None, [remark, what]))

    def predict(self, smiles: Iterable[str]) -> Iterator[tuple[np.ndarray | None, str]]:
        """For each, in order, its [properties] float32 and a remark; None and the reason where it is bad.

        Probabilities of class 1, or values in the units of the training data.
        """
        self.head  # noqa: B018  (raises before any work)
        return self._stream(smiles, self.properties_of)

    def embed(self, smiles: Iterable[str], pooling: str = "first") -> Iterator[tuple[np.ndarray | None, str]]:
        """As ``predict``, but [width] float32: the last layer's state of ``<s>`` (of ExLM the first of its
        states, node 0), or with "mean" the mean over the states of the SMILES' own tokens."""
        if pooling not in POOLINGS:
            raise ValueError(f"unknown pooling {pooling!r}: known are {' and '.join(POOLINGS)}")
        return self._stream(smiles, lambda tokens: self._pooled(tokens, pooling))

    def outputs(self, tokens: Tensor) -> Tensor:
        """The head's outputs [B, properties] for tokens [B, T]: logits, or standardised values."""
        return self.checkpoint.model(tokens, features_only=True, classification_head_name=self.head)[
            0
        ].float()

    def properties_of(self, tokens: Tensor) -> Tensor:
        """[B, properties] for tokens [B, T]: probabilities, or values in their units."""
        outputs, info = self.outputs(tokens), self.properties
        if not info.regression:
            return outputs.sigmoid()
        return outputs * outputs.new_tensor(info.std) + outputs.new_tensor(info.mean)

    def _pooled(self, tokens: Tensor, pooling: str) -> Tensor:
        states, extra = self.checkpoint.model(tokens, features_only=True)
        if pooling == "first":
            return states[:, 0].float()
        read = extra["layout"].tokens if "layout" in extra else tokens
        dictionary = self.checkpoint.dictionary
        own = ~torch.isin(read, read.new_tensor([dictionary.bos(), dictionary.eos(), dictionary.pad()]))
        weights = own.float()[..., None]
        return (states.float() * weights).sum(1) / weights.sum(1)

    def _stream(self, smiles: Iterable[str], function) -> Iterator[tuple[np.ndarray | None, str]]:
        source = iter(smiles)
        while strings := list(islice(source, self.window)):
            encoded, remarks, at = [], [""] * len(strings), []
            for i, string in enumerate(strings):
                try:
                    tokens, remarks[i] = self.encode(string)
                except ValueError as error:
                    remarks[i] = str(error)
                    continue
                encoded.append(tokens)
                at.append(i)
            rows: list[np.ndarray | None] = [None] * len(strings)
            for i, row in zip(at, self.run(encoded, function), strict=True):
                rows[i] = row
            yield from zip(rows, remarks, strict=True)

    @torch.inference_mode()
    def run(self, tokens: Sequence[Tensor], function: Callable[[Tensor], Tensor]) -> list[np.ndarray]:
        """A row of ``function``'s result for each molecule [T], in their order, computed in batches by
        length."""
        rows: list[np.ndarray] = [None] * len(tokens)
        order = sorted(range(len(tokens)), key=lambda i: len(tokens[i]))
        start = 0
        while start < len(order):
            end = start + 1
            while end < len(order) and (end + 1 - start) * len(tokens[order[end]]) <= self.batch_tokens:
                end += 1
            batch = torch.nn.utils.rnn.pad_sequence(
                [tokens[i] for i in order[start:end]],
                batch_first=True,
                padding_value=self.checkpoint.dictionary.pad(),
            )
            values = function(batch.to(self.checkpoint.device)).float().cpu().numpy()
            for i, row in zip(order[start:end], values, strict=True):
                rows[i] = row
            start = end
        return rows
