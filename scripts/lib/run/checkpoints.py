"""What has to be known of a pre-training: its checkpoint's architecture and lengths, and its dictionary."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from pathlib import Path

from lib.command_line import Flags, UserError

from fs_plugins.data.vocabulary import FILE, Vocabulary

EMBEDDINGS = tuple(f"{name}.sentence_encoder.embed_tokens.weight" for name in ("encoder", "decoder"))


@dataclass(frozen=True)
class Pretrained:
    """A model to start from.

    Attributes:
        path: a checkpoint, or a folder for transformers.
        flags: --arch and sizes, with which fairseq-train builds the checkpoint's model.
        entries: of its dictionary.
        dictionary: the dict.txt beside it, or that it names, or the folder itself; None if there is none of
            its size.
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
    """Reads what fine-tuning needs of a checkpoint or a folder for transformers; builds no model.

    Raises:
        UserError: if it is not there, broken, or not of this package's models.
    """
    from fs_plugins import checkpoint
    from fs_plugins.huggingface import restore

    try:
        state, cfg = restore.open_state(path)
    except (ValueError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise UserError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    entries = next((len(state["model"][name]) for name in EMBEDDINGS if name in state["model"]), None)
    if entries is None:
        raise UserError(f"{path} is no checkpoint of ExLM or of the MLM: it has no {EMBEDDINGS[0]}")
    flags = _model_flags(cfg.model._name, cfg.model)
    try:
        dictionary = path if restore.is_folder(path) else path.parent / FILE
        if not dictionary.exists():
            dictionary = checkpoint.find_dictionary(path, getattr(cfg.task, "data", None), None) / FILE
        dictionary = dictionary if len(Vocabulary.read(dictionary).symbols) == entries else None
    except (FileNotFoundError, ValueError):
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
        task=cfg.task._name,
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


def check_dictionary(pretrained: Pretrained, dictionary: Path, hint: str) -> None:
    """Raises ValueError if the dict.txt of data is not the checkpoint's, or of another size if that is gone.

    Args:
        hint: the end of the message, what to do if they differ.
    """
    vocabulary = Vocabulary.read(dictionary)
    if pretrained.dictionary:
        vocabulary.check(Vocabulary.read(pretrained.dictionary), hint)
    elif len(vocabulary.symbols) != pretrained.entries:
        raise UserError(
            f"{dictionary} has {len(vocabulary.symbols):,} entries (with <mask>), the checkpoint "
            f"{pretrained.path} {pretrained.entries:,}: {hint}"
        )
