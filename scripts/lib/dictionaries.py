"""fairseq's dictionaries: dict.txt with a symbol and its count per line, most frequent first."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

from lib.command_line import UserError

if TYPE_CHECKING:
    from fairseq.data import Dictionary

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's ids 0 to 3, which a dict.txt does not list
MASK = "<mask>"


def dictionary_file(path: Path) -> Path:
    """``path`` itself, or the dict.txt in it if it is a folder."""
    return path / "dict.txt" if path.is_dir() else path


def read_dictionary(path: Path) -> Dictionary:
    """fairseq's Dictionary of a dict.txt, or of a folder with one.

    Raises:
        UserError: if it does not exist, is empty, or has a line that is not a symbol and its count.
    """
    from fairseq.data import Dictionary

    path = dictionary_file(path)
    if not path.is_file():
        raise UserError(f"{path} does not exist: give the dict.txt of the pre-training, or its folder")
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.readlines()
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not a dict.txt of fairseq: invalid UTF-8 ({error.reason})") from None
    if not lines:
        raise UserError(f"{path} is empty: give the dict.txt of the pre-training")
    dictionary = Dictionary()
    for number, line in enumerate(lines, 1):
        try:
            dictionary.add_from_file(io.StringIO(line))
        except (ValueError, RuntimeError) as error:
            what = "repeats a symbol" if isinstance(error, RuntimeError) else "is not a symbol and its count"
            shown = line.rstrip("\n")
            message = f"{path}, line {number}: {shown!r} {what}: give a dict.txt of fairseq"
            raise UserError(message) from None
    return dictionary
