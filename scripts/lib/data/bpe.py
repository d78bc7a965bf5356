"""Byte-pair encoding with the dictionary of a pre-training: text to the ids that the model knows."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from lib.command_line import UserError

from fs_plugins.data.text_codecs import BLANK, GPT2_FILES, ByteBpe, read_bpe
from fs_plugins.data.vocabulary import MASK, SPECIAL, TOKENIZER, dictionary_file, read_dictionary
from fs_plugins.files import copy

PADDING_FACTOR = 8  # fairseq's: a dictionary of a multiple of 8 entries suits GPUs
UNKNOWN_ID = SPECIAL.index("<unk>")
ENDS = {*SPECIAL} - {"<unk>"}  # that no text has


class TextEncoder:
    """Text to ids of a dictionary.

    Attributes:
        allow_unknown: whether tokens missing from the dictionary become ``<unk>``.
        unknown: how many did so far.
        eos, size: id of ``</s>``, and entries of the dictionary.

    Raises:
        UserError: if the dictionary does not exist, is damaged, or was made with another BPE.
    """

    def __init__(self, bpe: ByteBpe, dictionary_path: Path, allow_unknown: bool = False):
        self.bpe, self.tokenizer = bpe, bpe.tokenizer
        self.tokenizer.encode_special_tokens = True  # a "<mask>" that a text has is text
        self.dictionary_path, self.allow_unknown, self.unknown = dictionary_path, allow_unknown, 0
        dictionary = read_dictionary(dictionary_path)
        self.eos, self.size = dictionary.eos(), len(dictionary)
        others = (s for s in dictionary.symbols[len(SPECIAL) :] if s not in bpe.tokens and s != MASK)
        if other := next((symbol for symbol in others if not symbol.startswith("madeupword")), None):
            raise UserError(
                f"{dictionary_path} has {other!r}, which is not a token of "
                f"{' and '.join(map(str, bpe.files))}: give the BPE that the dictionary was made with"
            )
        self._ids = np.full(max(bpe.symbols) + 1, -1)  # of the dictionary, by that of the BPE
        for i, symbol in bpe.symbols.items():
            if symbol not in ENDS:
                self._ids[i] = dictionary.indices.get(symbol, -1)

    def __setstate__(self, state: dict) -> None:
        self.__dict__ = state
        self.tokenizer.encode_special_tokens = True  # a tokenizer forgets it on its way to a worker

    def encode(self, texts: Sequence[str], sources: Sequence[str]) -> list[np.ndarray]:
        """Returns [T] int64 for each text: ids of the dictionary, without ``<s>`` and ``</s>``. Raises
        UserError, naming the text's source, for a token that the dictionary lacks, unless that is allowed."""
        encodings = self.tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        return [self._known(encodings[i].ids, text, sources[i]) for i, text in enumerate(texts)]

    def encode_with_offsets(
        self, texts: Sequence[str], sources: Sequence[str]
    ) -> list[tuple[np.ndarray, np.ndarray]]:
        """Returns what :meth:`encode` does, and [T, 2] int32 begin and end of each token, in characters.

        White space at the edges of a token is not part of it; a token of white space only is empty (it ends
        where it begins). A character whose bytes are spread over several tokens belongs to each of them.
        """
        results = []
        encodings = self.tokenizer.encode_batch(list(texts), add_special_tokens=False)
        for i, (text, e) in enumerate(zip(texts, encodings, strict=True)):
            spans = [_trimmed(text, *span, token) for span, token in zip(e.offsets, e.tokens, strict=True)]
            results.append((self._known(e.ids, text, sources[i]), np.array(spans, np.int32).reshape(-1, 2)))
        return results

    def _known(self, bpe_ids: list[int], text: str, source: str) -> np.ndarray:
        ids = self._ids[np.asarray(bpe_ids, np.int64)]
        unknown = ids < 0
        if unknown.any() and not self.allow_unknown:
            token = self.bpe.symbols[bpe_ids[int(np.argmax(unknown))]]
            text = text if len(text) <= 60 else text[:60] + "..."
            raise UserError(
                f"{source}: {self.dictionary_path} has no token {token!r}, which is in {text!r}: give the "
                "dictionary of the pre-training and the BPE that it was made with; or --allow-unknown"
            )
        ids[unknown] = UNKNOWN_ID
        self.unknown += int((ids == UNKNOWN_ID).sum())
        return ids


def dictionary_of(bpe: ByteBpe) -> str:
    """Returns the text of a dict.txt with every token of a BPE that a line can have, padded as fairseq
    does."""
    symbols = [symbol for _, symbol in sorted(bpe.symbols.items()) if symbol not in (*SPECIAL, MASK)]
    symbols = [symbol for symbol in symbols if not {"\n", "\r"} & {*symbol}]
    symbols += [f"madeupword{i:04d}" for i in range(-(len(symbols) + len(SPECIAL)) % PADDING_FACTOR)]
    return "".join(f"{symbol} 1\n" for symbol in symbols)


def copy_bpe(bpe: ByteBpe, folder: Path) -> None:
    """Puts a BPE into a folder of data, by the names that fine-tuning and export look for."""
    for path, name in zip(bpe.files, (TOKENIZER,) if len(bpe.files) == 1 else GPT2_FILES, strict=True):
        copy(path, folder / name)


def _trimmed(text: str, begin: int, end: int, token: str) -> tuple[int, int]:
    if not token.strip(BLANK):  # white space, or the blank put before the text
        return begin, begin
    piece = text[begin:end]
    begin += len(piece) - len(piece.lstrip())
    return begin, begin + len(piece.strip())


def add_encoder_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the BPE and the dictionary of a pre-training, for text to fine-tune on; see ``encoder_of``."""
    add = parser.add_mutually_exclusive_group(required=True).add_argument
    add("--data", type=Path, metavar="DIR", help="the pre-training's data: its dict.txt and BPE")
    add("--dictionary", type=Path, metavar="FILE", help="the pre-training's dict.txt, instead of --data")
    add = parser.add_argument
    add("--bpe", nargs="+", metavar="FILE", help="encoder.json vocab.bpe, tokenizer.json, or their folder")
    add("--allow-unknown", action="store_true", help="replace tokens missing from the dictionary by <unk>")


def encoder_of(args: argparse.Namespace) -> TextEncoder:
    """Returns the encoder that the arguments ask for."""
    bpe = read_bpe(*(args.bpe or [args.data or args.dictionary.parent]))
    dictionary = dictionary_file(args.dictionary or args.data)
    return TextEncoder(bpe, dictionary, args.allow_unknown)
