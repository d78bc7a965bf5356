"""Byte-pair encoding with the dictionary of a pre-training: text to the ids that the model knows.

Reads GPT-2's files (encoder.json and vocab.bpe; the dictionary's symbols are the ids of the BPE, as for
fairseq's RoBERTa) and any tokenizer.json of Hugging Face's tokenizers (the symbols are its tokens).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lib.command_line import UserError
from lib.dictionaries import MASK, SPECIAL, read_dictionary

if TYPE_CHECKING:
    from tokenizers import Tokenizer

GPT2_FILES = ("encoder.json", "vocab.bpe")
HF_FILE = "tokenizer.json"
EITHER = f"{' and '.join(GPT2_FILES)}, or a {HF_FILE}"
PADDING_FACTOR = 8  # fairseq's: a dictionary of a multiple of 8 entries suits GPUs
BLANKS = "Ġ▁"  # a space in byte-level BPEs and in sentencepiece


class UnknownTokenError(UserError):
    """A text has a token that the dictionary lacks; ``index`` is the text's place in its batch."""

    def __init__(self, message: str, index: int):
        super().__init__(message)
        self.index = index


def find_files(place: str | os.PathLike | Sequence[str | os.PathLike]) -> tuple[Path, ...]:
    """The files of a BPE: (encoder.json, vocab.bpe) or (tokenizer.json,).

    Args:
        place: these files, or a folder that holds them.

    Raises:
        UserError: if there are none.
    """
    paths = [Path(place)] if isinstance(place, (str, os.PathLike)) else [Path(p) for p in place]
    if len(paths) == 1 and paths[0].is_dir():
        for names in ((HF_FILE,), GPT2_FILES):
            found = tuple(paths[0] / name for name in names)
            if all(path.is_file() for path in found):
                return found
        raise UserError(f"{paths[0]} has no BPE ({EITHER}): name its files with --bpe")
    for path in paths:
        if not path.is_file():
            raise UserError(f"{path} does not exist: a BPE is {EITHER}")
    if len(paths) > 2:
        raise UserError(f"a BPE is {EITHER}; got {len(paths)} files")
    return tuple(paths)


class Bpe:
    """Text to token ids of the BPE.

    Attributes:
        files: where it was read from.
        symbols: the dictionary symbol of each id of the BPE; None for an unused id.

    Raises:
        UserError: if the files do not exist, are damaged, or do not belong together.
    """

    def __init__(self, place: str | os.PathLike | Sequence[str | os.PathLike]):
        self.files = find_files(place)
        self.tokenizer = _gpt2(*self.files) if len(self.files) == 2 else _hugging_face(self.files[0])
        vocabulary = self.tokenizer.get_vocab(with_added_tokens=True)
        self.symbols: list[str | None] = [None] * (max(vocabulary.values()) + 1)
        for token, i in vocabulary.items():
            self.symbols[i] = str(i) if len(self.files) == 2 else token

    @property
    def name(self) -> str:
        return " and ".join(map(str, self.files))

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of the BPE for each text, without special tokens."""
        return [e.ids for e in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], np.ndarray]]:
        """Ids of the BPE for each text, and [n, 2] int32 begin and end of each token, in characters.

        White space at the edges of a token is not part of it; a token of white space only is empty (it ends
        where it begins). A character whose bytes are spread over several tokens belongs to each of them.
        """
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        results = []
        for text, e in zip(texts, encodings, strict=True):
            spans = [_trimmed(text, *span, token) for span, token in zip(e.offsets, e.tokens, strict=True)]
            results.append((e.ids, np.array(spans, np.int32).reshape(-1, 2)))
        return results


def _trimmed(text: str, begin: int, end: int, token: str) -> tuple[int, int]:
    if not token.strip(BLANKS):  # also a space put before the text, which the library gives a character
        return begin, begin
    piece = text[begin:end]
    begin += len(piece) - len(piece.lstrip())
    return begin, begin + len(piece.strip())


def _gpt2(encoder_json: Path, vocab_bpe: Path) -> Tokenizer:
    from tokenizers import Tokenizer, models, pre_tokenizers

    try:
        model = models.BPE.from_file(str(encoder_json), str(vocab_bpe))
    except Exception as error:  # the library raises Exception itself
        raise UserError(f"{encoder_json} and {vocab_bpe} are not the files of one BPE: {error}") from None
    tokenizer = Tokenizer(model)
    if missing := set(pre_tokenizers.ByteLevel.alphabet()) - set(tokenizer.get_vocab()):
        raise UserError(f"{encoder_json} has no token {min(missing)!r}: a GPT-2 BPE has one for each byte")
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return tokenizer


def _hugging_face(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises Exception itself
        raise UserError(f"{path} is not a tokenizer.json of Hugging Face's tokenizers: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # a "<mask>" that a text has is text
    return tokenizer


class TextEncoder:
    """Text to ids of a dictionary.

    Attributes:
        bpe: the BPE.
        dictionary_path: dict.txt of the pre-training.
        allow_unknown: whether tokens missing from the dictionary become ``<unk>``.
        unknown: how many did so far.
        eos: id of ``</s>``.
        size: entries of the dictionary.

    Raises:
        UserError: if the dictionary does not exist, is damaged, or was made with another BPE.
    """

    def __init__(self, bpe: Bpe, dictionary_path: str | os.PathLike, allow_unknown: bool = False):
        self.bpe, self.dictionary_path = bpe, Path(dictionary_path)
        self.allow_unknown, self.unknown = allow_unknown, 0
        dictionary = read_dictionary(self.dictionary_path)
        self.eos, self.size = dictionary.eos(), len(dictionary)
        own = set(bpe.symbols)
        for number, symbol in enumerate(dictionary.symbols[len(SPECIAL) :], 1):
            if symbol not in own and symbol != MASK and not symbol.startswith("madeupword"):
                raise UserError(
                    f"{self.dictionary_path}, line {number}: {symbol!r} is not a token of {bpe.name}: "
                    "give the BPE that the dictionary was made with"
                )
        ids = dictionary.indices
        self._ids = np.array(
            [-1 if symbol in SPECIAL else ids.get(symbol, -1) for symbol in bpe.symbols], dtype=np.int64
        )

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """[T] int64 for each text: ids of the dictionary, without ``<s>`` and ``</s>``.

        Raises:
            UnknownTokenError: for a token missing from the dictionary, unless that is allowed.
        """
        return self._known(texts, self.bpe.encode(texts))

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[np.ndarray, np.ndarray]]:
        """As :meth:`encode`, with the offsets of :meth:`Bpe.encode_with_offsets`."""
        encoded = self.bpe.encode_with_offsets(texts)
        ids = self._known(texts, [ids for ids, _ in encoded])
        return [(own, offsets) for own, (_, offsets) in zip(ids, encoded, strict=True)]

    def _known(self, texts: Sequence[str], bpe_ids: Sequence[Sequence[int]]) -> list[np.ndarray]:
        encoded = [self._ids[np.asarray(ids, np.int64)] for ids in bpe_ids]
        for index, ids in enumerate(encoded):
            if (ids >= 0).all():
                continue
            if self.allow_unknown:
                self.unknown += int((ids < 0).sum())
                ids[ids < 0] = SPECIAL.index("<unk>")
            else:
                token = self.bpe.symbols[bpe_ids[index][int(np.argmax(ids < 0))]]
                text = texts[index] if len(texts[index]) <= 60 else texts[index][:60] + "..."
                raise UnknownTokenError(
                    f"{self.dictionary_path} has no token {token!r}, which is in {text!r}: give the "
                    "dictionary of the pre-training and the BPE that it was made with",
                    index,
                )
        return encoded


def dictionary_of(bpe: Bpe) -> str:
    """The text of a dict.txt with every token of a BPE, padded as fairseq does."""
    symbols = [symbol for symbol in bpe.symbols if symbol is not None and symbol not in (*SPECIAL, MASK)]
    padding = -(len(symbols) + len(SPECIAL)) % PADDING_FACTOR
    symbols += [f"madeupword{i:04d}" for i in range(padding)]
    return "".join(f"{symbol} 1\n" for symbol in symbols)


def train_tokenizer(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    """Trains a byte-level BPE, which can encode any text."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
