"""What a fine-tuning has to know of a checkpoint before it starts: architecture, dictionary, lengths."""

from __future__ import annotations

import argparse
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lib.command_line import UserError
from lib.dictionaries import entries_of, plain_symbols, read_symbols

EMBEDDINGS = tuple(f"{name}.sentence_encoder.embed_tokens.weight" for name in ("encoder", "decoder"))
CLASSIFICATION_TASKS = ("glue", "sentence_prediction", "repeated_sentence_prediction")
FINETUNING_TASKS = (*CLASSIFICATION_TASKS, "squad2", "molecule_property")


@dataclass(frozen=True)
class Pretrained:
    """A checkpoint to start from.

    Attributes:
        flags: --arch and sizes, with which fairseq-train builds the checkpoint's model.
        entries: of its dictionary, ``<mask>`` counted.
        symbols: of its dictionary, special ones and ``<mask>`` left out; None where it is not to be found.
        dictionary: where ``symbols`` are from.
        repeat: copies of each token (Repeated MLM), else 1.
        expands: whether it is an ExLM, which makes several states of a token.
        max_positions: most tokens of a sentence, after any expansion.
        tokens_per_sample: tokens of a sample of its pre-training.
        task: --task that it was trained with.
        classes: --num-classes of it; None where that task has none.
    """

    path: Path
    flags: tuple[str, ...]
    entries: int
    symbols: list[str] | None = None
    dictionary: str = ""
    repeat: int = 1
    expands: bool = False
    max_positions: int | None = None
    tokens_per_sample: int | None = None
    task: str = ""
    classes: int | None = None


def read_checkpoint(path: Path) -> Pretrained:
    """Reads what fine-tuning needs of a checkpoint; builds no model.

    Raises:
        UserError: if it is not there, broken, or not of this package's models.
    """
    from fairseq.models import ARCH_MODEL_REGISTRY

    from fs_plugins.models import checkpoint
    from fs_plugins.models.exlm import ExLMModel

    try:
        state, cfg = checkpoint.read_state(path)
    except (ValueError, OSError, RuntimeError, pickle.UnpicklingError) as error:
        raise UserError(str(error) if str(path) in str(error) else f"{path}: {error}") from error
    arch = checkpoint.name_of(cfg.model)
    entries = next((len(state["model"][name]) for name in EMBEDDINGS if name in state["model"]), None)
    if entries is None:
        raise UserError(f"{path} is no checkpoint of ExLM or of the MLM: it has no {EMBEDDINGS[0]}")
    symbols, place = _own_symbols(path, state, cfg, entries)
    return Pretrained(
        path=path,
        flags=tuple(_model_flags(arch, cfg.model)),
        entries=entries,
        symbols=symbols,
        dictionary=place,
        repeat=int(getattr(cfg.task, "repeat_times", None) or 1),
        expands=issubclass(ARCH_MODEL_REGISTRY[arch], ExLMModel),
        max_positions=getattr(cfg.model, "max_positions", None),
        tokens_per_sample=getattr(cfg.task, "tokens_per_sample", None),
        task=checkpoint.name_of(cfg.task),
        classes=getattr(cfg.task, "num_classes", None),
    )


def check_not_finetuned(found: Pretrained, way_out: str = "") -> None:
    """Raises UserError for a fine-tuned model: its scores would pass for the pre-training's."""
    if found.task in FINETUNING_TASKS:
        raise UserError(
            f"{found.path} was fine-tuned (--task {found.task}): give the checkpoint of the pre-training"
            f"{way_out}"
        )


def _model_flags(arch: str, model) -> list[str]:
    """--arch and sizes; of those that a checkpoint names, what its architecture knows."""
    from fairseq.models import ARCH_MODEL_REGISTRY

    from fs_plugins.models.architectures import MODEL_FLAGS

    parser = argparse.ArgumentParser()
    ARCH_MODEL_REGISTRY[arch].add_args(parser)
    known = vars(parser.parse_args([]))
    flags = ["--arch", arch]
    for name in MODEL_FLAGS:
        value = getattr(model, name, None)
        if name in known and value is not None and value is not False:
            flags += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return flags


def _own_symbols(path: Path, state: dict, cfg, entries: int) -> tuple[list[str] | None, str]:
    """(symbols, where from): what the checkpoint holds itself, or the dict.txt that it names."""
    from fs_plugins.models.checkpoint import find_dictionary, held_symbols

    held = held_symbols(state.get("task_state") or {})
    if held is not None:
        symbols, place = plain_symbols(held), "in itself"
    else:
        try:
            file = find_dictionary(path, getattr(cfg.task, "data", None), None) / "dict.txt"
            symbols, place = read_symbols(file), str(file)
        except (FileNotFoundError, UserError):
            return None, ""
    # a folder may have been filled anew since: of another size, it says nothing
    return (symbols, place) if entries_of(symbols) == entries else (None, "")


def check_dictionary(pretrained: Pretrained, symbols: Sequence[str], place: Path, way_out: str) -> str:
    """Compares the data's dictionary with the checkpoint's.

    Args:
        symbols: of the data's dictionary, as ``read_symbols`` has them.
        place: the file that they are from.
        way_out: the end of the message, what to do if they differ.

    Returns:
        What was compared: "symbols", or "size" where the checkpoint's own are not to be found.

    Raises:
        UserError: if they differ.
    """
    if entries_of(symbols) != pretrained.entries:
        raise UserError(
            f"{place} has {entries_of(symbols):,} entries (with <mask>), the dictionary of the checkpoint "
            f"{pretrained.path} {pretrained.entries:,}: {way_out}"
        )
    if pretrained.symbols is None:
        return "size"
    for number, (ours, theirs) in enumerate(zip(symbols, pretrained.symbols, strict=True), 1):
        if ours != theirs:
            raise UserError(
                f"{place}, line {number}: {ours!r}, where the checkpoint's dictionary "
                f"({pretrained.dictionary}) has {theirs!r}, though both are as long: {way_out}"
            )
    return "symbols"


def trained_updates(path: Path) -> int:
    """The updates that a checkpoint of fairseq-train has had; 0 if it is damaged (fairseq-train says how)."""
    import torch

    import fs_plugins  # noqa: F401  (registers what torch.load may load)

    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        return int(checkpoint["optimizer_history"][-1]["num_updates"])
    except Exception:
        return 0
