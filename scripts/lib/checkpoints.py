"""What has to be known of a pre-training: its dictionary, dict.txt with a symbol and its count per line; its
checkpoint's architecture and lengths."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lib.command_line import Flags, UserError

if TYPE_CHECKING:
    from fairseq.data import Dictionary

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # fairseq's ids 0 to 3, which a dict.txt does not list
MASK = "<mask>"
HINT = "give the dict.txt of the pre-training, or its folder"
EMBEDDINGS = tuple(f"{name}.sentence_encoder.embed_tokens.weight" for name in ("encoder", "decoder"))
FINETUNING_TASKS = (
    "glue",
    "sentence_prediction",
    "repeated_sentence_prediction",
    "squad2",
    "molecule_property",
)


@dataclass(frozen=True)
class Pretrained:
    """A checkpoint to start from.

    Attributes:
        flags: --arch and sizes, with which fairseq-train builds the checkpoint's model.
        entries: of its dictionary.
        dictionary: the dict.txt that it names; None if that is gone, or is of another size by now.
        repeat: copies of each token (Repeated MLM), else 1.
        expands: whether it is an ExLM, which makes several states of a token.
        max_positions: most tokens of a sentence, after any expansion.
        tokens_per_sample: tokens of a sample of its pre-training.
        task: --task that it was trained with.
        classes: --num-classes of it; None where that task has none.
    """

    path: Path
    flags: Flags
    entries: int
    dictionary: Path | None
    repeat: int
    expands: bool
    max_positions: int
    tokens_per_sample: int | None
    task: str
    classes: int | None


def read_checkpoint(path: Path) -> Pretrained:
    """Reads what fine-tuning needs of a checkpoint; builds no model.

    Raises:
        UserError: if it is not there, broken, or not of this package's models.
    """
    from fs_plugins import checkpoint

    try:
        state, cfg = checkpoint.read_state(path)
    except (ValueError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise UserError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    entries = next((len(state["model"][name]) for name in EMBEDDINGS if name in state["model"]), None)
    if entries is None:
        raise UserError(f"{path} is no checkpoint of ExLM or of the MLM: it has no {EMBEDDINGS[0]}")
    flags = _model_flags(checkpoint.name_of(cfg.model), cfg.model)
    try:
        dictionary = checkpoint.find_dictionary(path, getattr(cfg.task, "data", None), None) / "dict.txt"
        dictionary = dictionary if len(symbols_of(dictionary)) == entries else None
    except (FileNotFoundError, UserError):
        dictionary = None
    return Pretrained(
        path=path,
        flags=flags,
        entries=entries,
        dictionary=dictionary,
        repeat=int(getattr(cfg.task, "repeat_times", None) or 1),
        expands="--ext-state-num" in flags,
        max_positions=getattr(cfg.model, "max_positions", None) or 0,
        tokens_per_sample=getattr(cfg.task, "tokens_per_sample", None),
        task=checkpoint.name_of(cfg.task),
        classes=getattr(cfg.task, "num_classes", None),
    )


def _model_flags(arch: str, model) -> Flags:
    """--arch and sizes; of those that a checkpoint names, what its architecture knows."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    from fs_plugins.models.flags import TRAINING

    flags = Flags({"--arch": (arch,)})
    for flag in ARCH_MODEL_REGISTRY[arch].flags:
        value = getattr(model, flag.name, None)
        if flag.decides != TRAINING and value is not None and value is not False:
            flags[flag.option] = () if value is True else (str(value),)
    return flags


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


def symbols_of(dictionary: Path) -> list[str]:
    """The symbols of a dict.txt as the tasks have them: special ones first, and one ``<mask>``, last.

    Raises:
        UserError: if it is not one of fairseq.
    """
    symbols = read_dictionary(dictionary).symbols
    return [*(symbol for symbol in symbols if symbol != MASK), MASK]


def check_dictionary(pretrained: Pretrained, dictionary: Path, hint: str) -> None:
    """Raises UserError if the dict.txt of data is not the checkpoint's, or of another size if that is gone.

    Args:
        hint: the end of the message, what to do if they differ.
    """
    found = symbols_of(dictionary)
    theirs = symbols_of(pretrained.dictionary) if pretrained.dictionary else found
    if len(found) != pretrained.entries or found != theirs:
        others = "others" if len(found) == pretrained.entries else f"{pretrained.entries:,}"
        raise UserError(
            f"{dictionary} has {len(found):,} entries (with <mask>), the dictionary of the checkpoint "
            f"{pretrained.path} {others}: {hint}"
        )
