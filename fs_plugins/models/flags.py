"""The flags of a model: its settings, and what only a training has to know."""

import argparse
from collections.abc import Iterable
from dataclasses import Field, dataclass, fields
from typing import Any

from fs_plugins.exlm.settings import ExLMSettings, MLMSettings, setting


@dataclass
class TrainingSettings:
    """How a training begins and runs."""

    embedding_init_std: float = setting(0.02, "standard deviation of new embeddings", metavar="S")
    load_checkpoint_heads: bool = setting(False, "(re-)register and load heads when loading")
    checkpoint_activations: bool = setting(False, "recompute layers in the backward pass")


MLM_FLAGS, EXLM_FLAGS = (
    tuple(one for one in (*fields(settings), *fields(TrainingSettings)) if one.metadata)
    for settings in (MLMSettings, ExLMSettings)
)
# flags that a trained model does not need to know
OF_TRAINING = ("load_checkpoint_heads", "checkpoint_activations")


def option(name: str) -> str:
    """Returns ``--ext-state-num`` for ``ext_state_num``."""
    return f"--{name.replace('_', '-')}"


def add_flags(parser: argparse.ArgumentParser, flags: Iterable[Field]) -> None:
    for flag in flags:
        how = {"action": "store_true"} if flag.type is bool else {"type": flag.type}
        parser.add_argument(option(flag.name), **flag.metadata, **how)


def read_flags(given: dict[str, Any], flags: Iterable[Field]) -> dict[str, Any]:
    """Returns those of the values in a checkpoint that describe its model. They become words of commands:
    raises ValueError for a value that its flag does not take."""
    values = {}
    for flag in flags:
        value = given.get(flag.name)
        if value is None or flag.name in OF_TRAINING:
            continue
        kinds, choices = (int, float) if flag.type is float else (flag.type,), flag.metadata.get("choices")
        if type(value) not in kinds or (choices and value not in choices):
            wanted = f"one of {', '.join(map(str, choices))}" if choices else f"of type {flag.type.__name__}"
            raise ValueError(f"{option(flag.name)} {value!r:.200}: it must be {wanted}")
        values[flag.name] = value
    return values
