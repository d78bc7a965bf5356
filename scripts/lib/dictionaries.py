"""fairseq's dictionaries: dict.txt with a symbol and its count per line, most frequent first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lib.command_line import UserError

if TYPE_CHECKING:
    from fairseq.data import Dictionary

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's ids 0 to 3, which a dict.txt does not list
MASK = "<mask>"
HINT = "give the dict.txt of the pre-training, or its folder"


def dictionary_file(path: Path) -> Path:
    """``path`` itself, or the dict.txt in it if it is a folder."""
    return path / "dict.txt" if path.is_dir() else path


def read_dictionary(path: Path) -> Dictionary:
    """fairseq's Dictionary of a dict.txt, or of a folder with one.

    Raises:
        UserError: if it does not exist, is empty, or has a line that is not a new symbol and its count.
    """
    from fairseq.data import Dictionary

    path = dictionary_file(path)
    try:
        dictionary = Dictionary.load(str(path))
    except Exception as error:  # of invalid UTF-8 fairseq raises Exception itself
        raise UserError(f"{path} is not a dict.txt of fairseq ({error}): {HINT}") from error
    if len(dictionary) == len(SPECIAL):
        raise UserError(f"{path} is empty: {HINT}")
    return dictionary
