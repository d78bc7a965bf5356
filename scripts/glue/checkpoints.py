"""What fine-tuning has to know of a checkpoint: its architecture, sizes, dictionary and repetition."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from preparation.bpe import SPECIAL, BpeError, read_dictionary

from glue.files import GlueError


@dataclass(frozen=True)
class Pretrained:
    """A checkpoint to start from.

    Attributes:
        flags: --arch and sizes of the model.
        entries: of its dictionary, ``<mask>`` counted.
        repeat: copies of each token (Repeated MLM), else 1.
        symbols: of its dictionary, ``<mask>`` not counted, with the file; None where that is not to be found.
    """

    path: Path
    flags: tuple[str, ...]
    entries: int
    repeat: int
    symbols: tuple[Path, list[str]] | None = None


def read_checkpoint(path: Path) -> Pretrained:
    """Reads what fine-tuning needs of a checkpoint.

    Raises:
        GlueError: if it is not there, or not of this package's models.
    """
    from moleculenet.checkpoints import EMBEDDING, model_flags, read_state

    try:
        state, cfg = read_state(path)
        flags = model_flags(cfg)
    except ValueError as error:
        raise GlueError(str(error)) from None
    repeat = getattr(cfg.task, "repeat_times", None) or 1
    entries = len(state["model"][EMBEDDING])
    data = getattr(cfg.task, "data", None)
    return Pretrained(path, tuple(flags), entries, int(repeat), _own_symbols(path, data, entries))


def _own_symbols(path: Path, data: str | None, entries: int) -> tuple[Path, list[str]] | None:
    """Of the dictionary that the checkpoint names, if it is still there, and as long."""
    from fs_plugins.analysis.checkpoint import find_dictionary

    try:
        dictionary = find_dictionary(path, data, None) / "dict.txt"
        symbols = read_dictionary(dictionary)
    except (FileNotFoundError, BpeError):
        return None
    return (dictionary, symbols) if len(symbols) + len(SPECIAL) + 1 == entries else None


def check_dictionary(pretrained: Pretrained, data: Path) -> None:
    """Raises GlueError unless the data's dictionary is the checkpoint's: as long, with the same symbols."""
    dictionary = data / "input0" / "dict.txt"
    if not dictionary.is_file():
        raise GlueError(f"there is no {dictionary}: give a folder that scripts/prepare_glue.py made")
    symbols = read_dictionary(dictionary)
    entries = len(symbols) + len(SPECIAL) + 1
    if entries != pretrained.entries:
        raise GlueError(
            f"{dictionary} has {entries:,} entries (with <mask>), the checkpoint {pretrained.path} "
            f"{pretrained.entries:,}: prepare GLUE with the dict.txt of its pre-training"
        )
    if pretrained.symbols is not None and pretrained.symbols[1] != symbols:
        own, theirs = pretrained.symbols
        at = next(i for i, pair in enumerate(zip(theirs, symbols, strict=True)) if pair[0] != pair[1])
        raise GlueError(
            f"{dictionary}, line {at + 1}: {symbols[at]!r}, where the checkpoint's dictionary {own} has "
            f"{theirs[at]!r}: prepare GLUE with the dict.txt of its pre-training"
        )
