"""What fine-tuning has to know of a checkpoint: its architecture, sizes, dictionary and repetition."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from glue.files import GlueError


@dataclass(frozen=True)
class Pretrained:
    """A checkpoint to start from.

    Attributes:
        flags: --arch and sizes of the model.
        entries: of its dictionary, ``<mask>`` counted.
        repeat: copies of each token (Repeated MLM), else 1.
    """

    path: Path
    flags: tuple[str, ...]
    entries: int
    repeat: int


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
    return Pretrained(path, tuple(flags), len(state["model"][EMBEDDING]), int(repeat))


def check_dictionary(pretrained: Pretrained, data: Path) -> None:
    """Raises GlueError unless the data's dictionary is as large as the checkpoint's."""
    from fairseq.data import Dictionary

    dictionary = data / "input0" / "dict.txt"
    if not dictionary.is_file():
        raise GlueError(f"there is no {dictionary}: give a folder that scripts/prepare_glue.py made")
    entries = len(Dictionary.load(str(dictionary))) + 1
    if entries != pretrained.entries:
        raise GlueError(
            f"{dictionary} has {entries:,} entries (with <mask>), the checkpoint {pretrained.path} "
            f"{pretrained.entries:,}: prepare GLUE with the dict.txt of its pre-training"
        )
