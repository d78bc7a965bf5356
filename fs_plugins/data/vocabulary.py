"""A vocabulary: the symbols that a model's ids stand for, in order. Two are the same if all symbols are."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from fairseq.data import Dictionary

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's ids 0 to 3, which a dict.txt does not list
MASK = "<mask>"
FILE = "dict.txt"
HINT = f"give the {FILE} of the pre-training, or its folder"


@dataclass(frozen=True)
class Vocabulary:
    """Symbols in the order of their ids.

    Attributes:
        symbols: with fairseq's special ones and ``<mask>``, as a model has them.
        source: the file that they were read from, for messages.
    """

    symbols: tuple[str, ...]
    source: str

    @classmethod
    def of(cls, symbols: Iterable[str], source: str | os.PathLike) -> "Vocabulary":
        """Of the symbols of a dictionary; ``<mask>`` comes last if they lack it, as the tasks add it."""
        symbols = tuple(symbols)
        return cls(symbols if MASK in symbols else (*symbols, MASK), str(source))

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """Of a dict.txt, or of a folder with one; raises what :func:`read_dictionary` does."""
        return cls.of(read_dictionary(path).symbols, dictionary_file(path))

    @property
    def identity(self) -> str:
        """SHA-256 of the symbols, to be recorded; without a last ``<mask>``, which a dict.txt may lack."""
        symbols = self.symbols[:-1] if self.symbols[-1] == MASK else self.symbols
        return hashlib.sha256("\n".join(symbols).encode("utf-8")).hexdigest()

    def check(self, other: "Vocabulary", way_out: str) -> None:
        """Raises ValueError if the two differ: names both, the first entry that differs, and the way out."""
        if self.symbols == other.symbols:
            return
        pairs = enumerate(zip_longest(self.symbols, other.symbols))
        entry, pair = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
        here, there = ("missing" if symbol is None else repr(symbol) for symbol in pair)
        raise ValueError(
            f"{self.source} ({len(self.symbols):,} entries with {MASK}) and {other.source} "
            f"({len(other.symbols):,}) are different vocabularies: entry {entry} is {here} in the one and "
            f"{there} in the other: {way_out}"
        )


def dictionary_file(path: Path) -> Path:
    """``path`` itself, or the dict.txt in it if it is a folder."""
    return path / FILE if path.is_dir() else path


def read_dictionary(path: Path) -> Dictionary:
    """fairseq's Dictionary of a dict.txt, or of a folder with one.

    Raises:
        ValueError: if it does not exist, is empty, or has a line that is not a new symbol and its count.
    """
    path = dictionary_file(path)
    try:
        dictionary = Dictionary.load(str(path))
    except Exception as error:  # of invalid UTF-8 fairseq raises Exception itself
        raise ValueError(f"{path} is not a {FILE} of fairseq ({error}): {HINT}") from error
    if len(dictionary) == len(SPECIAL):
        raise ValueError(f"{path} is empty: {HINT}")
    return dictionary
