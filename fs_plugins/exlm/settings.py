"""The settings of a model, each defined once: its name, type, range and meaning.

The flags of fairseq-train, the checks of argparse, what a checkpoint may hold, and the fields of config.json
are derived from :class:`Settings`.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields
from typing import Any

from fs_plugins.exlm.encoder import ACTIVATIONS
from fs_plugins.exlm.transitions import GRAPHS

# What a setting decides. WEIGHTS: which weights a model has, or how they begin. FUNCTION: what it computes
# with the same weights, which loading a checkpoint does not notice. TRAINING: of a training only.
WEIGHTS, FUNCTION, TRAINING = "weights", "function", "training"
FEATURES = ("feature:position", "position:feature", "feature", "position")


@dataclass(frozen=True, eq=False)  # argparse hashes its types
class Values:
    """The values that a setting takes: of ``type``, from ``low`` to ``high``, or one of ``choices``."""

    type: type
    low: float = -sys.float_info.max
    high: float = sys.float_info.max
    choices: Iterable | None = None

    def __call__(self, text: str):
        """Returns the value that a word of the command line stands for; argparse's ``type``."""
        try:
            return self.checked(self.type(text), text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text}: it must be {self}") from error

    def checked(self, value, name: str):
        """Returns the value. Raises ValueError, with this name, if a setting does not take it."""
        if not self.fits(value):
            raise ValueError(f"{name}: it must be {self}")
        return value

    def fits(self, value) -> bool:
        if self.choices is not None:
            return type(value) is self.type and value in self.choices
        if self.type in (int, float):
            return type(value) in (int, self.type) and self.low <= value <= self.high
        return type(value) is self.type

    def __str__(self) -> str:
        if self.choices is not None:
            return f"one of {', '.join(map(str, self.choices))}"
        name = {bool: "True or False", int: "a whole number", float: "a number"}[self.type]
        if self.high < sys.float_info.max:
            return f"{name} from {self.low:,} to {self.high:,}"
        return f"{name} of at least {self.low:,}" if self.low > -sys.float_info.max else name


SWITCH = Values(bool)
SIZE, LENGTH, INDEX = (Values(int, low, 2**20) for low in (1, -1, 0))
PROBABILITY, POSITIVE = Values(float, 0, 1), Values(float, 0)
ACTIVATION = Values(str, choices=ACTIVATIONS)


@dataclass(frozen=True)
class About:
    """What is known of a setting besides its name and default."""

    values: Values
    flag: str | None  # name among fairseq-train's arguments: ``ext_state_num``; None if it has none
    help: str
    decides: str
    metavar: str | None = None  # name of its value in ``--help``
    needs_states: bool = False  # whether a model without states lacks the flag
    inverted: bool = False  # whether the flag is True where the setting is False


def setting(
    default, values: Values, flag: str | None, help: str, decides: str = WEIGHTS, *more, **about
) -> Any:
    """Returns a field of :class:`Settings`, with what :class:`About` has; "validator" is for ``@strict`` of
    huggingface_hub, which leaves None to the type."""

    def check(value):
        if value is not None and not values.fits(value):
            raise ValueError(f"it must be {values}, got {value!r:.200}")

    about = About(values, flag, help, decides, *more, **about)
    return field(default=default, metadata={"about": about, "validator": check})


def _size(default: int, flag: str | None, help: str, metavar: str | None = None) -> Any:
    return setting(default, SIZE, flag, help, WEIGHTS, metavar)


def _probability(default: float, flag: str, help: str) -> Any:
    return setting(default, PROBABILITY, flag, f"dropout probability{help}", TRAINING, "P")


def _token(id: int, symbol: str) -> Any:
    return setting(id, INDEX, None, f"id of {symbol}")


@dataclass(kw_only=True, repr=False, eq=False)
class Settings:
    """The settings of a masked language model: of an ExLM, or without ``num_states`` of the vanilla MLM. The
    defaults are those of ``exlm_base``."""

    vocab_size: int = _size(50265, None, "size of the vocabulary")
    num_hidden_layers: int = _size(12, "encoder_layers", "number of layers", "N")
    hidden_size: int = _size(768, "encoder_embed_dim", "hidden size", "D")
    intermediate_size: int = _size(
        3072, "encoder_ffn_embed_dim", "hidden size of the feed-forward networks", "F"
    )
    num_attention_heads: int = _size(12, "encoder_attention_heads", "number of attention heads", "H")
    max_position_embeddings: int = _size(
        2048, "max_positions", "most tokens of a sentence, after any expansion", "N"
    )
    norm_first: bool = setting(
        True, SWITCH, "encoder_normalize_before", "pre-norm: norm before blocks", FUNCTION
    )
    hidden_act: str = setting(
        "gelu", ACTIVATION, "activation_fn", "activation function of the encoder", FUNCTION
    )
    # Does not change FUNCTION: a fine-tuning makes heads anew.
    classifier_activation: str = setting(
        "tanh", ACTIVATION, "pooler_activation_fn", "activation function of the heads"
    )
    hidden_dropout_prob: float | int = _probability(0.1, "dropout", "")
    attention_probs_dropout_prob: float | int = _probability(
        0.1, "attention_dropout", " of the attention weights"
    )
    activation_dropout: float | int = _probability(
        0.0, "activation_dropout", " after the activation function"
    )
    classifier_dropout: float | int = _probability(0.0, "pooler_dropout", " of the classification heads")
    layer_norm_eps: float | int = setting(1e-5, POSITIVE, None, "epsilon of the layer norms")
    tie_word_embeddings: bool = setting(
        True, SWITCH, "untie_weights_roberta", "own output matrix", inverted=True
    )
    repeat_times: int = _size(1, None, "how often each token stands in a row (Repeated MLM)")
    rope_dimensions: int = setting(
        2,
        Values(int, choices=(1, 2)),
        "rope_dimensions",
        "2 (default): a token's index and copy; 1: index in the expanded sentence (w/o 2D RoPE)",
        FUNCTION,
    )
    num_states: int | None = setting(
        4, SIZE, "ext_state_num", "states of an expanded token (k; default 4)", FUNCTION, "K", True
    )
    alignment: str = setting(
        "dag",
        Values(str, choices=("dag", "ctc")),
        None,
        "how states align to targets: dag: by paths; ctc: within each token, without transitions",
    )
    links_feature: str = setting(
        "feature:position",
        Values(str, choices=FEATURES),
        "links_feature",
        "what transitions are computed from: feature, position (the node's), or feature:position (default)",
        *(WEIGHTS, "A:B", True),
    )
    max_transition_length: int = setting(
        -1,
        LENGTH,
        "max_transition_length",
        "longest transition, in nodes; -1 (default) for any",
        *(FUNCTION, "N", True),
    )
    state_graph: str = setting(
        "dag",
        Values(str, choices=GRAPHS),
        "state_graph",
        f"transitions of a state: {'; '.join(f'{name}: to {nodes}' for name, nodes in GRAPHS.items())}",
        *(FUNCTION, None, True),
    )
    bos_token_id: int = _token(0, "<s>")
    pad_token_id: int = _token(1, "<pad>")
    eos_token_id: int = _token(2, "</s>")
    unk_token_id: int = _token(3, "<unk>, which is also the blank of CTC")
    mask_token_id: int = _token(50264, "<mask>")

    def validate_together(self) -> None:
        """Raises ValueError for settings that do not go together."""
        k, length = self.num_states, self.max_transition_length
        if self.hidden_size % (part := self.num_attention_heads * 2 * self.rope_dimensions):
            raise ValueError(f"hidden_size {self.hidden_size}: it must be a multiple of {part}")
        if k is None:
            return
        if self.repeat_times > 1:
            raise ValueError(
                f"repeat_times {self.repeat_times}: ExLM expands masked tokens itself; repeated tokens are "
                "for a model without states (--arch p_roberta_base, mlm_smiles, mlm_tiny, ...)"
            )
        if length != -1 and length < (least := 2 * k - 1):
            raise ValueError(
                f"max_transition_length {length} leaves sentences without a path from <s> to </s>: with k "
                f"= {k} it must be at least {least}, or -1 for any length"
            )


def abouts() -> dict[str, tuple[Field, About]]:
    """Returns {name of the setting: its field, what is known of it}."""
    return {field.name: (field, field.metadata["about"]) for field in fields(Settings)}
