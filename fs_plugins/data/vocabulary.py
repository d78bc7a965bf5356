"""A vocabulary: the symbols that a model's ids stand for, in order. Two are the same if all symbols are."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from fairseq.data import Dictionary

from fs_plugins import files
from fs_plugins.files import naming_errors

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's ids 0 to 3, which a dict.txt does not list
MASK = "<mask>"
DICT_FILE, TOKENIZER, INPUT = "dict.txt", "tokenizer.json", "input0"
HINT = f"give the {DICT_FILE} of the pre-training, or the folder of its data, its checkpoint, or its export"


@dataclass(frozen=True)
class Vocabulary:
    """Symbols in the order of their ids."""

    symbols: tuple[str, ...]  # includes fairseq's special ones and ``<mask>``, as a model has them
    source: str  # the file that they were read from, for messages

    @classmethod
    def of(cls, symbols: Iterable[str], source: str | os.PathLike) -> "Vocabulary":
        """Returns the vocabulary of a dictionary's symbols; ``<mask>`` comes last if they lack it, as the
        tasks add it."""
        symbols = tuple(symbols)
        return cls(symbols if MASK in symbols else (*symbols, MASK), str(source))

    @classmethod
    def read(cls, path: Path) -> "Vocabulary":
        """Returns the vocabulary of a folder or a dict.txt; raises what :func:`read_dictionary` does."""
        file = dictionary_file(path)
        return cls.of(read_dictionary(file).symbols, file)

    def dictionary(self) -> Dictionary:
        """Returns fairseq's Dictionary of these symbols, with ``<mask>``."""
        dictionary = Dictionary()
        for symbol in self.symbols[len(SPECIAL) :]:
            dictionary.add_symbol(symbol)
        return dictionary

    @property
    def identity(self) -> str:
        """Returns the SHA-256 of the symbols, to be recorded; without a last ``<mask>``, which a dict.txt may
        lack."""
        return hashlib.sha256("\n".join(self.listed).encode("utf-8")).hexdigest()

    @property
    def listed(self) -> tuple[str, ...]:
        """Returns the symbols without a last ``<mask>``."""
        return self.symbols[: -1 if self.symbols[-1] == MASK else None]

    def write(self, path: Path) -> None:
        """Writes a dict.txt, in which every symbol counts 1."""
        files.write_text(path, "".join(f"{symbol} 1\n" for symbol in self.listed[len(SPECIAL) :]))

    def check(self, other: "Vocabulary", way_out: str) -> None:
        """Raises ValueError if the two differ: names both, the first entry that differs, and the way out."""
        if self.symbols == other.symbols:
            return
        pairs = enumerate(zip_longest(self.symbols, other.symbols))
        entry, pair = next((i, pair) for i, pair in pairs if pair[0] != pair[1])
        one, another = ("missing" if symbol is None else repr(symbol) for symbol in pair)
        raise ValueError(
            f"{self.source} ({len(self.symbols):,} entries with {MASK}) and {other.source} "
            f"({len(other.symbols):,}) are different vocabularies: entry {entry} is {one} in the one and "
            f"{another} in the other: {way_out}"
        )


def dictionary_file(path: Path) -> Path:
    """Returns the file of a vocabulary: ``path`` itself; of a folder, or of a checkpoint, the dict.txt in it
    or beside it (of GLUE in its input0)."""
    if not path.is_dir():
        return dictionary_file(path.parent) if path.suffix == ".pt" else path
    listed = [file for file in (path / DICT_FILE, path / INPUT / DICT_FILE) if file.is_file()]
    return listed[0] if listed else path / DICT_FILE


def read_dictionary(path: Path) -> Dictionary:
    """Returns fairseq's Dictionary of what :func:`dictionary_file` finds. Raises ValueError if it is none, or
    empty."""
    path = dictionary_file(path)
    with naming_errors(path):
        dictionary = Dictionary.load(str(path))
    if len(dictionary) == len(SPECIAL):  # all tokens would be unknown
        raise ValueError(f"{path} is empty: {HINT}")
    return dictionary


def copy_dictionary(path: Path, target: Path) -> None:
    """Writes what :func:`dictionary_file` finds as a dict.txt."""
    files.copy(dictionary_file(path), target)
