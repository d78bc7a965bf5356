"""A trained model from Python: one door, whatever it was trained for and however it is stored."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fs_plugins import checkpoint as checkpoints
from fs_plugins.checkpoint import Checkpoint
from fs_plugins.criterions.state_use import is_word
from fs_plugins.data.length_order import batches_by_length
from fs_plugins.data.molecules import canonical_smiles, parse_molecule
from fs_plugins.data.smiles_tokens import tokenize
from fs_plugins.data.text_codecs import MASK, Codec, Smiles, encode_text, encode_with_masks
from fs_plugins.finetuning.outputs import Outputs
from fs_plugins.inference.masked_prediction import MaskedPredictor
from fs_plugins.inference.text_graph import Sentence, TextGraph, Token, special_ids, text_graph, top_tokens

BATCH_TOKENS = 16384
MAX_TOKENS = 2048  # rotary positions have no learned table to run out of
POOLINGS = ("mean", "first")
WINDOW = 4096  # texts that are held at a time; sorted by length among themselves

Row = tuple[np.ndarray | None, str]  # numbers and a remark; None and the reason for an unreadable text


@dataclass(frozen=True)
class Filled:
    """A text with its masks filled."""

    text: str
    # most probable tokens of each mask by itself, best first; none is a special symbol
    masks: list[list[Token]]


class Model:
    """A trained model; :func:`load` gives one.

    Args:
        checkpoint: what it consists of.
        codec: how its corpus was written.
        batch_tokens: most tokens of a batch, with padding.
        max_tokens: most tokens of a text that are read, with ``<s>`` and ``</s>``; of a fine-tuned model as
            many as it was trained on, if that is less. Of a pre-trained one it does not depend on
            --max-positions, so that all models read the same; what is much longer than the samples of a
            model's training may be read badly.
        truncate: read the start of what is longer, instead of refusing it.
        canonical, allow_valence: how SMILES are read; by default as they were for the training, and where
            that is unknown in RDKit's canonical form and with its rules of valence.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        codec: Codec,
        *,
        batch_tokens: int = BATCH_TOKENS,
        max_tokens: int = MAX_TOKENS,
        truncate: bool = False,
        canonical: bool | None = None,
        allow_valence: bool | None = None,
    ):
        self.checkpoint, self.codec, info = checkpoint, codec, checkpoint.properties
        self.batch_tokens, self.truncate = batch_tokens, truncate
        self.canonical = checkpoint.smiles_form != "as-given" if canonical is None else canonical
        allowed = info is not None and info.allow_valence
        self.allow_valence = allow_valence if allow_valence is not None else allowed
        self.limit = min(max_tokens, checkpoint.longest or max_tokens)

    @property
    def width(self) -> int:
        """Returns the size of an embedding."""
        return self.checkpoint.model.encoder.sentence_encoder.embed_tokens.embedding_dim

    # ---- texts without masks

    def symbols(self, text: str) -> Sequence[str]:
        """Returns its symbols; raises ValueError if it cannot be read."""
        if isinstance(self.codec, Smiles):
            molecule = parse_molecule(text, self.allow_valence)
            return tokenize(canonical_smiles(molecule, text) if self.canonical else text)
        if symbols := encode_text(text.strip(), self.codec):
            return symbols
        raise ValueError("there is no text")

    def encode(self, text: str | tuple[str, str]) -> tuple[Tensor, str]:
        """Returns ``<s> A </s>``, or of a pair ``<s> A </s> </s> B </s>``: [T] int64, each token ``copies``
        times; and a remark, or "". Raises ValueError, which says why, if it cannot be read or is too long."""
        parts = [text] if isinstance(text, str) else text
        if not isinstance(parts, list | tuple) or not all(isinstance(part, str) for part in parts):
            raise ValueError(f"{text!r:.100} is no text, nor a pair of them")
        one = isinstance(self.codec, Smiles) or self.checkpoint.cfg.task.get("sentences") == 1
        if len(parts) not in ((1,) if one else (1, 2)):
            read = "one at a time: give each as an item" if one else "texts or pairs of them"
            raise ValueError(f"{text!r:.100} are {len(parts)} texts, and the model reads {read}")
        dictionary, unknown = self.checkpoint.dictionary, set()
        ids = [dictionary.bos()]
        for i, part in enumerate(parts):
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
        return torch.tensor(ids).repeat_interleave(self.checkpoint.copies), "; ".join(remarks)

    def embed(self, texts: str | Iterable[str], pooling: str = "mean") -> Iterator[Row]:
        """Yields for each text, in order, its [width] float32 and a remark; None and the reason if it is
        unreadable. A string is one text.

        It is the mean over the last layer's states of its own tokens; with "first" it is the state of
        ``<s>`` (of ExLM the first, node 0), which predicts worse without fine-tuning.
        """
        if pooling not in POOLINGS:
            raise ValueError(f"pooling {pooling!r}: it must be one of {', '.join(POOLINGS)}")
        first = pooling == "first"
        return self._stream(texts, lambda tokens: self._pooled(tokens, first))

    def predict(self, texts: str | Iterable) -> Iterator[Row]:
        """Yields for each text or pair of texts, in order, its [outputs] float64 and a remark; None and the
        reason if it is unreadable. A string is one text; an item that is a tuple of two is a pair.

        Of properties of molecules the probability of class 1, or the value in the units of the training data;
        of classes the probability of each; or the score of GLUE. ``outputs`` has their names. Raises
        ValueError if the model predicts nothing of texts.
        """
        outputs, head, model = self.outputs, self.checkpoint.head, self.checkpoint.model

        def predictions(tokens: Tensor) -> Tensor:
            return outputs.predictions(model(tokens, features_only=True, classification_head_name=head)[0])

        return self._stream(texts, predictions)

    @cached_property
    def outputs(self) -> Outputs:
        """Returns the kind and names of the outputs of :meth:`predict`; raises as it does."""
        if self.checkpoint.head is None:
            raise ValueError(
                f"{self.checkpoint.path} predicts no properties or classes: fine-tune it for some"
            )
        return self.checkpoint.outputs

    def _pooled(self, tokens: Tensor, first: bool) -> Tensor:
        """Returns [B, width] of tokens [B, T]."""
        states, dictionary = self.checkpoint.model.features(tokens, first), self.checkpoint.dictionary
        if first:
            return states[:, 0].float()
        weights = is_word(tokens, dictionary).float()[..., None]
        return (states.float() * weights).sum(1) / weights.sum(1)

    def _stream(self, texts: str | Iterable, function: Callable[[Tensor], Tensor]) -> Iterator[Row]:
        """Returns a row of ``function``'s result [B, ...] for each text, computed in batches by length."""
        source = iter([texts] if isinstance(texts, str) else texts)
        pad = self.checkpoint.dictionary.pad()
        while window := list(islice(source, WINDOW)):
            encoded, rows, remarks = {}, {}, [""] * len(window)
            for i, text in enumerate(window):
                try:
                    encoded[i], remarks[i] = self.encode(text)
                except ValueError as error:
                    remarks[i] = str(error)
            numbers = list(encoded)
            for part in batches_by_length([len(encoded[i]) for i in numbers], self.batch_tokens):
                some = [numbers[i] for i in part]
                batch = pad_sequence([encoded[i] for i in some], True, pad).to(self.checkpoint.device)
                with torch.inference_mode():
                    outputs = function(batch).cpu().numpy()
                rows |= dict(zip(some, outputs, strict=True))
            yield from ((rows.get(i), remark) for i, remark in enumerate(remarks))

    # ---- texts with masks

    def log_probs(self, text: str) -> Tensor:
        """Returns the log-probabilities (nats) of the vocabulary for each ``<mask>`` of a text, each by
        itself: [masks, V] float32, of :meth:`MaskedPredictor.token_log_probs`. Raises ValueError for a text
        without a mask, or more states than the model has positions."""
        return self.predictor.token_log_probs(*self._masked(encode_with_masks(text, self.codec)))

    @cached_property
    def predictor(self) -> MaskedPredictor:
        """Returns the predictor of masked words. Raises ValueError if the model's folder has no LM head."""
        checkpoint = self.checkpoint
        ctc = checkpoint.k is not None and not checkpoint.has_transitions
        return MaskedPredictor(checkpoint.pretrained, copies=checkpoint.copies, ctc=ctc)

    def _masked(self, symbols: list[str]) -> tuple[Tensor, Tensor]:
        """Returns the symbols as tokens [1, T], and which are masks."""
        dictionary = self.checkpoint.dictionary
        ids = [dictionary.bos(), *map(dictionary.index, symbols), dictionary.eos()]
        tokens = torch.tensor([ids], device=self.checkpoint.device)
        return tokens, tokens == dictionary.index(MASK)

    def fill(self, text: str, top: int = 5) -> Filled:
        """Returns a text with its masks filled, and the ``top`` tokens for each; raises as :meth:`log_probs`.

        An ExLM fills them together, by the best path through its graph and the best tokens on it; other
        models fill each by itself. Each ``<mask>`` stands for one symbol of the dictionary.
        """
        symbols, dictionary = encode_with_masks(text, self.codec), self.checkpoint.dictionary
        tokens, masked = self._masked(symbols)
        best = None
        if self.predictor.has_transitions:
            graph = self.predictor.graph(tokens, masked)
            log_probs = self.predictor.word_log_probs(graph)
            best = Sentence(graph.graph, symbols, self.codec, dictionary).best()
        else:
            log_probs = self.predictor.token_log_probs(tokens, masked)
        special = special_ids(dictionary)
        log_probs[:, special] = -torch.inf
        top = min(top, len(dictionary) - len(special))
        masks = top_tokens(log_probs.exp(), top, self.codec, dictionary)
        if best is not None:
            return Filled(best.text, masks)
        words = iter(tokens[0].symbol for tokens in masks)
        symbols = [next(words) if s == MASK else s for s in symbols]
        return Filled(self.codec.decode(symbols).strip(), masks)

    def graph(self, text: str, *, top: int = 5) -> TextGraph:
        """Returns the graph of an ExLM's states for a text with masks, with the ``top`` tokens of each state
        and the best decoding. Raises ValueError for a model without trained transitions, and as
        :meth:`log_probs`."""
        checkpoint, model = self.checkpoint, self.checkpoint.pretrained
        if not checkpoint.has_transitions:
            trained = f"--arch {checkpoint.arch} --criterion {checkpoint.criterion}"
            raise ValueError(f"{checkpoint.path}, of {trained}, has no graph of states: give an ExLM")
        symbols = encode_with_masks(text, self.codec)
        with torch.no_grad():
            graph, _ = model(self._masked(symbols)[0])
        return text_graph(checkpoint, Sentence(graph, symbols, self.codec, checkpoint.dictionary), text, top)


def load(
    model: str | os.PathLike,
    *,
    data: str | os.PathLike | None = None,
    bpe: str | Sequence[str] | None = None,
    device: str | None = None,
    **options,
) -> Model:
    """Returns a trained model, with the dictionary and the tokenizer that lie beside it.

    >>> model = load("checkpoints/exlm/checkpoint_best.pt")  # or load("pretrained/mlm-molecules")
    >>> [(vector, remark)] = model.embed("Good news.")
    >>> model.fill("This is <mask>.").text

    Args:
        model: a file that fairseq-train saved, or a folder for transformers.
        data: folder with the ``dict.txt`` of the pre-training, if it is not found.
        bpe: how the corpus was written: "none" (symbols between blanks), "smiles", a tokenizer.json, or
            GPT-2's (encoder.json, vocab.bpe); by default what lies beside the dictionary.
        device: "cpu", "cuda", "cuda:1", ...; by default a GPU if there is one.
        options: those of :class:`Model`.
    """
    checkpoint = checkpoints.load(model, data, device)
    return Model(checkpoint, checkpoint.codec(bpe), **options)
