"""The settings of a model, each defined once: its name, type, range and meaning.

The flags of fairseq-train, the checks of argparse, what a checkpoint may hold, and the fields of config.json
are derived from :class:`Settings`.
"""

import argparse
import sys
from collections.abc import Iterable
from dataclasses import Field, dataclass, field, fields
from typing import Any

from .encoder import ACTIVATIONS
from .graphs import GRAPHS

# What a setting decides. WEIGHTS: which weights a model has, or how they begin. FUNCTION: what it computes
# with the same weights, which loading a checkpoint does not notice. TRAINING: of a training only.
WEIGHTS, FUNCTION, TRAINING = "weights", "function", "training"
FEATURES = ("feature:position", "position:feature", "feature", "position", "feature:distance")


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
    help: str
    decides: str = WEIGHTS
    flag: str | None = None  # of fairseq-train, as in its arguments: ``ext_state_num``; None if it has none
    metavar: str | None = None  # what ``--help`` calls its value
    of_states: bool = False  # whether a model without states lacks the flag
    inverted: bool = False  # whether the flag is True where the setting is False


def setting(default: Any, values: Values, help: str, flag: str | None = None, **about) -> Any:
    """Returns a field of :class:`Settings`; "validator" is for ``@strict`` of huggingface_hub, which leaves
    None to the type."""

    def check(value):
        if value is not None and not values.fits(value):
            raise ValueError(f"it must be {values}, got {value!r:.200}")

    return field(
        default=default, metadata={"about": About(values, help, flag=flag, **about), "validator": check}
    )


def _probability(default: float, help: str, flag: str) -> Any:
    return setting(default, PROBABILITY, help, flag, decides=TRAINING, metavar="P")


def _token(id: int, symbol: str) -> Any:
    return setting(id, INDEX, f"id of {symbol}")


@dataclass(kw_only=True, repr=False, eq=False)
class Settings:
    """The settings of a masked language model: of an ExLM, or without ``num_states`` of the vanilla MLM. The
    defaults are those of ``exlm_base``."""

    vocab_size: int = setting(50265, SIZE, "size of the vocabulary")
    num_hidden_layers: int = setting(12, SIZE, "number of layers", "encoder_layers", metavar="N")
    hidden_size: int = setting(768, SIZE, "hidden size", "encoder_embed_dim", metavar="D")
    intermediate_size: int = setting(
        3072, SIZE, "hidden size of the feed-forward networks", "encoder_ffn_embed_dim", metavar="F"
    )
    num_attention_heads: int = setting(
        12, SIZE, "number of attention heads", "encoder_attention_heads", metavar="H"
    )
    norm_first: bool = setting(
        True, SWITCH, "pre-norm: norm before blocks", "encoder_normalize_before", decides=FUNCTION
    )
    max_position_embeddings: int = setting(
        2048, SIZE, "most tokens of a sentence, after any expansion", "max_positions", metavar="N"
    )
    hidden_act: str = setting(
        "gelu", ACTIVATION, "activation function of the encoder", "activation_fn", decides=FUNCTION
    )
    # of heads, which a fine-tuning makes anew
    classifier_activation: str = setting(
        "tanh", ACTIVATION, "activation function of the heads", "pooler_activation_fn"
    )
    hidden_dropout_prob: float | int = _probability(0.1, "dropout probability", "dropout")
    attention_probs_dropout_prob: float | int = _probability(
        0.1, "dropout probability of the attention weights", "attention_dropout"
    )
    activation_dropout: float | int = _probability(
        0.0, "dropout probability after the activation function", "activation_dropout"
    )
    classifier_dropout: float | int = _probability(
        0.0, "dropout probability of the classification heads", "pooler_dropout"
    )
    layer_norm_eps: float | int = setting(1e-5, POSITIVE, "epsilon of the layer norms")
    tie_word_embeddings: bool = setting(
        True, SWITCH, "own output matrix", "untie_weights_roberta", inverted=True
    )
    repeat_times: int = setting(1, SIZE, "how often each token stands in a row (Repeated MLM)")
    rope_dimensions: int = setting(
        2,
        Values(int, choices=(1, 2)),
        "2 (default): a token's index and copy; 1: index in the expanded sentence (w/o 2D RoPE)",
        "rope_dimensions",
        decides=FUNCTION,
    )
    num_states: int | None = setting(
        4,
        SIZE,
        "states of an expanded token (k; default 4)",
        "ext_state_num",
        decides=FUNCTION,
        metavar="K",
        of_states=True,
    )
    alignment: str = setting(
        "dag",
        Values(str, choices=("dag", "ctc")),
        "how states align to targets: dag: by paths through their graph; ctc: within each token, without "
        "transitions",
    )
    links_feature: str = setting(
        "feature:position",
        Values(str, choices=FEATURES),
        "what transitions are computed from: feature, position (the node's), feature:position (default), or "
        "feature:distance, of the distances to the expanded tokens before and after (not in the paper)",
        "links_feature",
        metavar="A:B",
        of_states=True,
    )
    max_transition_length: int = setting(
        -1,
        LENGTH,
        "longest transition, in nodes; -1 (default) for any",
        "max_transition_length",
        decides=FUNCTION,
        metavar="N",
        of_states=True,
    )
    state_graph: str = setting(
        "dag",
        Values(str, choices=GRAPHS),
        f"transitions of a state: {'; '.join(f'{name}: {graph.help}' for name, graph in GRAPHS.items())}",
        "state_graph",
        decides=FUNCTION,
        of_states=True,
    )
    state_embedding_scale: float | int = setting(
        0.0,
        POSITIVE,
        "learn for each of the K states a vector, added to its nodes before the last layer norm, and a bias "
        "of its logits, of initial standard deviations R / 2 and 2 R (not in the paper; default 0: none; 1 "
        "keeps states apart)",
        "state_embedding_scale",
        metavar="R",
        of_states=True,
    )
    expand_from_layer: int = setting(
        0,
        LENGTH,
        "copy tokens into their states after the first J layers, which see each once, or -1: after all (not "
        "in the paper; default 0: before the first layer)",
        "expand_from_layer",
        decides=FUNCTION,
        metavar="J",
        of_states=True,
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
        if self.expand_from_layer > self.num_hidden_layers:
            raise ValueError(
                f"expand_from_layer {self.expand_from_layer}: give a number of layers from 0 (the paper's) "
                f"to {self.num_hidden_layers}, or -1 for all"
            )
        if length != -1 and length < 2 * k - 1:
            raise ValueError(
                f"max_transition_length {length} leaves sentences without a path from <s> to </s>: with k "
                f"= {k} it must be at least {2 * k - 1}, or -1 for any length"
            )
        if length != -1 and not GRAPHS[self.state_graph].takes_length:
            raise ValueError(
                f"max_transition_length {length}: the transitions of {self.state_graph} have a length of "
                f"their own; give it with {' or '.join(name for name, g in GRAPHS.items() if g.takes_length)}"
            )


def abouts() -> dict[str, tuple[Field, About]]:
    """Returns {name of the setting: its field, what is known of it}."""
    return {field.name: (field, field.metadata["about"]) for field in fields(Settings)}
