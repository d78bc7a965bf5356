"""The flags of fairseq-train: those of ``exlm/settings.py``, and those of a training alone."""

import argparse
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fs_plugins.exlm.settings import POSITIVE, SWITCH, TRAINING, WEIGHTS, About, abouts


@dataclass(frozen=True)
class Flag:
    """A flag of a model."""

    name: str  # name among fairseq's arguments: ``ext_state_num`` for ``--ext-state-num``
    default: Any  # value if neither command nor architecture gives one; None if it depends on the size
    about: About
    config: str | None = None  # name of its setting; None if only a training has it

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    @property
    def decides(self) -> str:
        return self.about.decides

    @property
    def is_switch_of_training(self) -> bool:
        """Returns whether it only says how a training runs, which a trained model does not need to know."""
        return self.decides == TRAINING and self.config is None

    def checked(self, value):
        """Returns the value. Raises ValueError if the flag does not take it."""
        return self.about.values.checked(value, f"{self.option} {value!r:.200}")


BY_SIZE = ("num_hidden_layers", "hidden_size", "intermediate_size", "num_attention_heads")
BY_SIZE += ("max_position_embeddings",)


def _of_settings() -> Iterator[Flag]:
    for name, (field, about) in abouts().items():
        if about.flag:
            default = None if name in BY_SIZE else field.default
            default = False if name in ("norm_first", "tie_word_embeddings") else default
            yield Flag(about.flag, default, about, name)


EXLM_FLAGS = (
    *_of_settings(),
    Flag(
        "embedding_init_std",
        0.02,
        About(POSITIVE, None, "standard deviation of new embeddings", WEIGHTS, "S"),
    ),
    *(
        Flag(name, False, About(SWITCH, None, help, TRAINING))
        for name, help in (
            ("load_checkpoint_heads", "(re-)register and load heads when loading"),
            ("checkpoint_activations", "recompute layers in the backward pass"),
        )
    ),
)
MLM_FLAGS = tuple(flag for flag in EXLM_FLAGS if not flag.about.needs_states)


def add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    for flag in flags:
        values = flag.about.values
        more = {"type": values, "metavar": flag.about.metavar, "choices": values.choices}
        more = {"action": "store_true"} if values.type is bool else more
        parser.add_argument(flag.option, help=flag.about.help, **more)


def set_defaults(args, **defaults) -> None:
    """Sets those of fairseq's arguments that are open."""
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


def defaults_of(flags: Iterable[Flag]) -> dict[str, Any]:
    """Returns {name of the flag: default} of the flags that have one."""
    return {flag.name: flag.default for flag in flags if flag.default is not None}


def to_settings(args, flags: Iterable[Flag]) -> dict[str, Any]:
    """Returns {name of the setting: value} of a model's arguments; without states ``num_states`` is None.
    Raises ValueError for a value that a flag does not take."""
    given = {flag: flag.checked(getattr(args, flag.name)) for flag in flags if flag.config}
    values = {flag.config: not value if flag.about.inverted else value for flag, value in given.items()}
    return {"num_states": None, **values, "repeat_times": getattr(args, "repeat_times", None) or 1}


OPTIONS = {flag.config: flag.option for flag in EXLM_FLAGS if flag.config} | {
    "repeat_times": "--repeat-times"
}


@contextmanager
def named_by_option() -> Iterator[None]:
    """Errors about settings name the flags instead."""
    try:
        yield
    except ValueError as error:
        message = re.sub(r"\w+", lambda word: OPTIONS.get(word[0], word[0]), str(error))
        raise ValueError(message) from None
