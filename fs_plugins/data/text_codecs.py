"""Text to symbols of the dictionary and back: a byte-level BPE, SMILES, or symbols between blanks."""

import json
import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

from fairseq.data import Dictionary
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from fs_plugins.data.smiles_tokens import is_smiles, tokenize
from fs_plugins.data.vocabulary import MASK, SPECIAL, TOKENIZER
from fs_plugins.files import naming_errors

GPT2_FILES = ("encoder.json", "vocab.bpe")
BLANK = "Ġ"  # the space among the characters by which a byte-level BPE writes bytes
MANIFEST = "manifest.json"  # settings and inputs of a folder made by scripts/prepare_*.py


class Codec(ABC):
    """How a corpus was written in the symbols of its dictionary."""

    example = f"This is {MASK}."

    @abstractmethod
    def encode(self, text: str, first: bool) -> list[str]:
        """Returns the symbols of a piece of text; ``first`` if it is the start of the sentence."""

    @abstractmethod
    def decode(self, symbols: Sequence[str]) -> str:
        """Returns the text of symbols, with the blanks that they carry."""

    def word(self, symbol: str) -> str:
        """Returns a symbol as a word to show, without its blank."""
        return self.decode([symbol]).strip() or symbol


class Blanks(Codec):
    """Symbols between blanks, as in data binarised without a BPE; SMILES tokens, for instance."""

    def encode(self, text, first):
        return text.split()

    def decode(self, symbols):
        return " ".join(symbols)


class Smiles(Codec):
    """SMILES, as scripts/prepare_smiles.py cuts them; what is no SMILES token is a ValueError."""

    example = f"CC{MASK}O"

    def encode(self, text, first):
        return tokenize(text)

    def decode(self, symbols):
        return "".join(symbols)


class ByteBpe(Codec):
    """A byte-level BPE, as those of GPT-2, of RoBERTa, and of scripts/train_bpe.py.

    Args:
        files: a tokenizer.json, whose tokens are the dictionary's symbols; or GPT-2's encoder.json and
            vocab.bpe, whose ids are the symbols, as fairseq writes them.

    Raises:
        ValueError: for a tokenizer of another kind, which an export could not copy.
    """

    def __init__(self, *files: str | os.PathLike):
        self.files = tuple(map(Path, files))
        with naming_errors(", ".join(map(str, files))):
            self.tokenizer = (_gpt2 if len(files) == 2 else _tokenizer_json)(*files)
        if not isinstance(self.tokenizer.decoder, decoders.ByteLevel):
            raise ValueError(f"{files[0]} is no byte-level BPE, as GPT-2's or that of scripts/train_bpe.py")
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        self.inner = Tokenizer.from_str(self.tokenizer.to_str())  # tokenizer of what follows a mask
        if self.puts_blank:
            self.inner.pre_tokenizer.add_prefix_space = False
        ids = self.tokenizer.get_vocab()
        self.symbols = {i: str(i) if len(files) == 2 else token for token, i in ids.items()}
        self.tokens = {self.symbols[i]: token for token, i in ids.items()}

    @property
    def puts_blank(self) -> bool:
        """Returns whether a blank is put before a text that does not begin with one."""
        step = self.tokenizer.pre_tokenizer
        return isinstance(step, pre_tokenizers.ByteLevel) and step.add_prefix_space

    def encode(self, text, first):
        tokenizer = self.tokenizer if first else self.inner
        return [self.symbols[i] for i in tokenizer.encode(text, add_special_tokens=False).ids]

    def decode(self, symbols):
        text = ""
        for is_token, run in groupby(symbols, lambda s: s in self.tokens and not is_special(s)):
            if is_token:
                text += self.tokenizer.decoder.decode([self.tokens[symbol] for symbol in run])
            else:
                text += "".join(f" {symbol}" for symbol in run)
        return text


def _tokenizer_json(path: str | os.PathLike) -> Tokenizer:
    tokenizer = Tokenizer.from_str(Path(path).read_text(encoding="utf-8"))
    steps = tokenizer.pre_tokenizer
    if isinstance(steps, pre_tokenizers.Sequence) and isinstance(steps[0], pre_tokenizers.Metaspace):
        # An export's, see tokenizer_files.py: the blank before a text is that of ByteLevel again.
        tokenizer.pre_tokenizer, tokenizer.decoder = steps[1], decoders.ByteLevel()
        tokenizer.pre_tokenizer.add_prefix_space = True
    return tokenizer


def _gpt2(encoder_json: str | os.PathLike, vocab_bpe: str | os.PathLike) -> Tokenizer:
    tokenizer = Tokenizer(models.BPE.from_file(str(encoder_json), str(vocab_bpe)))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def is_special(symbol: str) -> bool:
    """Returns whether it is <s>, <pad>, </s>, <unk> or <mask>."""
    return symbol in (*SPECIAL, MASK)


def make_codec(source: str | Sequence[str] | None, data: Path, dictionary: Dictionary) -> Codec:
    """Returns the codec of a corpus.

    Args:
        source: "none"; "smiles"; a tokenizer.json; encoder.json and vocab.bpe; a folder that holds one of
            these; None to take "smiles" if the dictionary is one of them, or to look for these files in its
            folder and in the one above it, and else to take "none".
        data: folder of the ``dictionary``.
    """
    paths = [source] if isinstance(source, (str, os.PathLike)) else list(source or [])
    if paths in (["none"], ["smiles"]):
        return Blanks() if paths == ["none"] else Smiles()
    if paths:
        return read_bpe(*paths)
    if is_smiles(dictionary.symbols):
        return Smiles()
    for folder in (data, data.resolve().parent):
        if files := _files_in(folder):
            return read_bpe(*files)
    return Blanks()


def read_bpe(*paths: str | os.PathLike) -> ByteBpe:
    """Returns the BPE in encoder.json and vocab.bpe, in a tokenizer.json, or in a folder with either; raises
    what :class:`ByteBpe` does."""
    if len(paths) == 1 and Path(paths[0]).is_dir():
        paths = _files_in(Path(paths[0])) or [Path(paths[0], TOKENIZER)]
    return ByteBpe(*paths)


def _files_in(folder: Path) -> list[Path]:
    """Returns the files of the BPE in a folder; [] if it has none."""
    for names in (GPT2_FILES, (TOKENIZER,)):  # an export has both
        if all((folder / name).is_file() for name in names):
            return [folder / name for name in names]
    return []


def smiles_form(folder: Path) -> str | None:
    """Returns ``--smiles`` of the prepare_smiles.py that made a folder: "canonical", "as-given" or None."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    with naming_errors(path):
        return json.loads(path.read_text(encoding="utf-8")).get("settings", {}).get("smiles")


def encode_with_masks(text: str, codec: Codec) -> list[str]:
    """Returns the symbols of a text with a mask, by :func:`encode_text`. Raises ValueError if it has none,
    too."""
    if MASK not in text:
        hint = ": write it <mask>, not [MASK]" if "[mask]" in text.lower() else ""
        raise ValueError(f"no {MASK} in {text!r}{hint}; e.g. {codec.example!r}")
    return encode_text(text, codec)


def encode_text(text: str, codec: Codec) -> list[str]:
    """Returns the symbols of a text; each ``<mask>`` is one symbol, and blanks before one belong to its word.
    Raises ValueError for a symbol that is kept for the sentence's ends."""
    symbols, (*before, last) = [], text.split(MASK)
    for i, piece in enumerate([*map(str.rstrip, before), last]):
        symbols += [MASK] if i > 0 else []
        symbols += codec.encode(piece, first=i == 0) if piece else []
    reserved = [s for s in symbols if s in ("<s>", "</s>", "<pad>")]
    if reserved:
        raise ValueError(f"{reserved[0]} in {text!r}: the sentence is given <s> and </s>, leave them out")
    return symbols
