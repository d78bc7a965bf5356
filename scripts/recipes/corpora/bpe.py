"""A BPE together with the dictionary of a pre-training: text to the ids that the model knows.

Two kinds of BPE: GPT-2's files (encoder.json and vocab.bpe; the dictionary's symbols are the BPE's ids, as
fairseq's RoBERTa has them) and any tokenizer.json of Hugging Face's tokenizers (symbols are its tokens).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

GPT2_FILES = ("encoder.json", "vocab.bpe")
HF_FILE = "tokenizer.json"
PADDING_FACTOR = 8  # fairseq's: a dictionary of a multiple of 8 entries suits GPUs
SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")
MASK = "<mask>"
BLANKS = "Ġ▁"  # how byte-level BPEs and sentencepiece write a blank


class BpeError(ValueError):
    """The BPE or the dictionary cannot serve; the message says why and what to do."""


class UnknownTokenError(BpeError):
    """A text has a token that the dictionary does not know; ``index`` is the text's place in its batch."""

    def __init__(self, message: str, index: int):
        super().__init__(message)
        self.index = index


def find_files(place: str | os.PathLike | Sequence[str | os.PathLike]) -> tuple[Path, ...]:
    """The files of a BPE: (encoder.json, vocab.bpe) or (tokenizer.json,).

    Args:
        place: these files, or a folder that holds them.

    Raises:
        BpeError: if there are none.
    """
    paths = [Path(place)] if isinstance(place, (str, os.PathLike)) else [Path(p) for p in place]
    if len(paths) == 1 and paths[0].is_dir():
        for names in ((HF_FILE,), GPT2_FILES):
            found = tuple(paths[0] / name for name in names)
            if all(path.is_file() for path in found):
                return found
        raise BpeError(f"{paths[0]} has neither {HF_FILE} nor {' and '.join(GPT2_FILES)}: give them by --bpe")
    for path in paths:
        if not path.is_file():
            raise BpeError(f"there is no {path}: a BPE is encoder.json and vocab.bpe, or a tokenizer.json")
    if len(paths) > 2:
        raise BpeError(f"a BPE is encoder.json and vocab.bpe, or a tokenizer.json; got {len(paths)} files")
    return tuple(paths)


class Bpe:
    """Text to token ids of the BPE.

    Attributes:
        files: where it was read from.
        symbols: of each id of the BPE, its symbol in dictionaries; None where an id is not used.

    Raises:
        BpeError: if the files are not there, are damaged, or don't belong together.
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
        return " and ".join(str(path) for path in self.files)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of the BPE for each text, no special tokens added."""
        return [e.ids for e in self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)]

    def encode_with_offsets(self, texts: Sequence[str]) -> list[tuple[list[int], np.ndarray]]:
        """Ids of the BPE for each text, and [n, 2] int32 where each token begins and ends, in characters.

        White space at the edges of a token is not counted to it: one of white space alone has no characters
        (it ends where it begins). A character whose bytes are spread over several tokens is of each of them.
        """
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        results = []
        for text, e in zip(texts, encodings, strict=True):
            spans = [_trimmed(text, *span, token) for span, token in zip(e.offsets, e.tokens, strict=True)]
            results.append((e.ids, np.array(spans, np.int32).reshape(-1, 2)))
        return results


def _trimmed(text: str, begin: int, end: int, token: str) -> tuple[int, int]:
    if not token.strip(BLANKS):  # also a blank put before the text, which the library gives a character
        return begin, begin
    piece = text[begin:end]
    begin += len(piece) - len(piece.lstrip())
    return begin, begin + len(piece.strip())


def _gpt2(encoder_json: Path, vocab_bpe: Path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    try:
        vocabulary = json.loads(encoder_json.read_text(encoding="utf-8"))
    except ValueError as error:
        raise BpeError(f"{encoder_json} is not the encoder.json of a GPT-2 BPE: {error}") from None
    if not isinstance(vocabulary, dict) or not all(isinstance(i, int) for i in vocabulary.values()):
        raise BpeError(f"{encoder_json} is not the encoder.json of a GPT-2 BPE: no table of tokens and ids")
    merges = []
    for number, line in enumerate(_text_of(vocab_bpe).split("\n"), 1):
        pair = tuple(line.split())
        if not pair or (number == 1 and line.startswith("#version")):
            continue
        if len(pair) != 2:
            raise BpeError(f"{vocab_bpe}, line {number}: {line!r} is no merge of two tokens")
        missing = next((token for token in (*pair, "".join(pair)) if token not in vocabulary), None)
        if missing is not None:
            raise BpeError(
                f"{vocab_bpe}, line {number}: {encoder_json} has no token {missing!r}: "
                "the two files are of different models"
            )
        merges.append(pair)
    missing = [letter for letter in pre_tokenizers.ByteLevel.alphabet() if letter not in vocabulary]
    if missing:
        raise BpeError(f"{encoder_json} has no token {missing[0]!r}: a GPT-2 BPE has one for each byte")
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return tokenizer


def _hugging_face(path: Path):
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises Exception itself
        raise BpeError(f"{path} is not a tokenizer.json of Hugging Face's tokenizers: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True  # a "<mask>" that a text has is text
    return tokenizer


class TextEncoder:
    """Text to ids of a dictionary.

    Attributes:
        bpe: the BPE.
        dictionary_path: dict.txt of the pre-training.
        allow_unknown: whether a token that the dictionary does not know becomes ``<unk>``.
        unknown: how many did so far.
        eos: id of ``</s>``.
        size: entries of the dictionary, ``<mask>`` not counted.

    Raises:
        BpeError: if the dictionary is not there, damaged, or was made with another BPE.
    """

    def __init__(self, bpe: Bpe, dictionary_path: str | os.PathLike, allow_unknown: bool = False):
        self.bpe, self.dictionary_path = bpe, Path(dictionary_path)
        self.allow_unknown, self.unknown = allow_unknown, 0
        symbols = read_dictionary(self.dictionary_path)
        self.eos, self.size = SPECIAL.index("</s>"), len(SPECIAL) + len(symbols)
        ids = {symbol: i for i, symbol in enumerate(symbols, len(SPECIAL))}
        own = set(bpe.symbols)
        for number, symbol in enumerate(symbols, 1):
            if symbol not in own and symbol != MASK and not symbol.startswith("madeupword"):
                raise BpeError(
                    f"{self.dictionary_path}, line {number}: {symbol!r} is no token of {bpe.name}: "
                    "give the BPE that the dictionary was made with"
                )
        self._ids = np.array([ids.get(symbol, -1) for symbol in bpe.symbols], dtype=np.int64)

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """[T] int64 for each text: ids of the dictionary, without ``<s>`` and ``</s>``.

        Raises:
            UnknownTokenError: if the dictionary does not know a token, unless that is allowed.
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
                place = int(np.argmax(ids < 0))
                token = self.bpe.symbols[self.bpe.encode([texts[index]])[0][place]]
                raise UnknownTokenError(
                    f"{self.dictionary_path} does not know the token {token!r} of {shortened(texts[index])}: "
                    "give the dictionary of the pre-training, and the BPE that it was made with",
                    index,
                )
        return encoded


def read_dictionary(path: Path) -> list[str]:
    """The symbols of a fairseq dictionary, in order, without the four special ones.

    Raises:
        BpeError: if it is not there, or a line is none of a dictionary.
    """
    if not path.is_file():
        raise BpeError(f"there is no {path}: give the folder of the pre-training's data")
    symbols = []
    for number, line in enumerate(_text_of(path).removesuffix("\n").split("\n"), 1):
        parts = line.rsplit(" ", 1)
        if len(parts) != 2 or not parts[1].isdigit():
            raise BpeError(f"{path}, line {number}: {line!r} is not a symbol and its count")
        symbols.append(parts[0])
    seen: dict[str, int] = {}
    for number, symbol in enumerate(symbols, 1):
        if symbol in seen or symbol in SPECIAL:
            raise BpeError(f"{path}, line {number}: {symbol!r} stands there twice")
        seen[symbol] = number
    return symbols


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BpeError(f"{path} is no text in UTF-8 ({error.reason} at byte {error.start})") from None


def dictionary_of(bpe: Bpe) -> str:
    """The text of a dict.txt with every token of a BPE, filled up as fairseq does it.

    Raises:
        BpeError: for a token that no line of a dict.txt can hold.
    """
    symbols = [symbol for symbol in bpe.symbols if symbol is not None and symbol not in (*SPECIAL, MASK)]
    for symbol in symbols:
        if "\n" in symbol or "\r" in symbol:
            raise BpeError(
                f"{bpe.name} has the token {symbol!r}, and a dict.txt a token a line: give another BPE"
            )
    padding = -(len(symbols) + len(SPECIAL)) % PADDING_FACTOR
    symbols += [f"madeupword{i:04d}" for i in range(padding)]
    return "".join(f"{symbol} 1\n" for symbol in symbols)


def shortened(text: str, length: int = 60) -> str:
    """A text as messages quote it."""
    return repr(text if len(text) <= length else text[:length] + "...")
