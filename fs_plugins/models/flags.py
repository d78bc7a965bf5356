"""The flags of the models, each said once: what ``--help``, the architectures' defaults, the reading of
checkpoints, and export to and import from transformers know of them follows from here."""

import argparse
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from fairseq import utils

from fs_plugins.modules.transition_head import STATE_GRAPHS

# What a flag decides. WEIGHTS: which weights a model has, or how they begin. FUNCTION: what it computes with
# the same weights, which loading a checkpoint does not notice. TRAINING: of a training only.
WEIGHTS, FUNCTION, TRAINING = "weights", "function", "training"

# names of activation functions: fairseq's and those of transformers
ACTIVATIONS = {
    "gelu": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
    "gelu_accurate": "gelu_new",
    "gelu_fast": "gelu_new",
}
FROM_TRANSFORMERS = {theirs: ours for ours, theirs in reversed(ACTIVATIONS.items())}


@dataclass(frozen=True, eq=False)  # argparse hashes its types
class Values:
    """The values that a flag takes: of ``type``, from ``low`` to ``high``, or one of ``choices``; and how
    they stand in config.json."""

    type: type
    low: float = -sys.float_info.max
    high: float = sys.float_info.max
    choices: Iterable | None = None
    to_config: Callable[[Any], Any] = lambda value: value
    from_config: Callable[[Any], Any] = lambda value: value

    def __call__(self, text: str):
        """Returns the value that a word of the command line stands for; argparse's ``type``."""
        try:
            return self.checked(self.type(text), text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text}: it must be {self}") from error

    def checked(self, value, name: str):
        """Returns the value. Raises ValueError, with this name, if a flag does not take it."""
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
SIZE, LENGTH = Values(int, 1, 2**20), Values(int, -1, 2**20)
PROBABILITY, POSITIVE = Values(float, 0, 1), Values(float, 0)
INVERTED = Values(bool, to_config=lambda value: not value, from_config=lambda value: not value)
ACTIVATION = Values(
    str,
    choices=utils.get_available_activation_fns(),
    to_config=ACTIVATIONS.__getitem__,
    from_config=FROM_TRANSFORMERS.__getitem__,
)
FEATURES = Values(
    str,
    choices=("feature:position", "position:feature", "feature", "position", "feature:distance"),
    to_config=lambda text: text.split(":"),
    from_config=":".join,
)
SCALE = Values(float, 0, to_config=lambda scale: scale > 0, from_config=float)


@dataclass(frozen=True)
class Flag:
    """A flag of a model."""

    name: str  # as in fairseq's arguments: ``ext_state_num`` for ``--ext-state-num``
    values: Values
    default: Any  # where neither the command nor the architecture says; None if it depends on the size
    decides: str  # WEIGHTS, FUNCTION or TRAINING
    config: str | None  # its name in config.json; None if it is not there
    help: str
    metavar: str | None = None  # what ``help`` calls its value

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"


def _size(name: str, config: str, help: str, metavar: str) -> Flag:
    return Flag(name, SIZE, None, WEIGHTS, config, help, metavar)


def _probability(name: str, default: float, config: str, help: str) -> Flag:
    return Flag(name, PROBABILITY, default, TRAINING, config, help, "P")


def _switch(name: str, help: str) -> Flag:
    return Flag(name, SWITCH, False, TRAINING, None, help)


MLM_FLAGS = (
    _size("encoder_layers", "num_hidden_layers", "number of layers", "N"),
    _size("encoder_embed_dim", "hidden_size", "hidden size", "D"),
    _size("encoder_ffn_embed_dim", "intermediate_size", "hidden size of the feed-forward networks", "F"),
    _size("encoder_attention_heads", "num_attention_heads", "number of attention heads", "H"),
    Flag("encoder_normalize_before", SWITCH, False, FUNCTION, "norm_first", "pre-norm: norm before blocks"),
    _size("max_positions", "max_position_embeddings", "most tokens of a sentence, after any expansion", "N"),
    Flag("activation_fn", ACTIVATION, "gelu", FUNCTION, "hidden_act", "activation function of the encoder"),
    # of heads, which a fine-tuning makes anew
    Flag("pooler_activation_fn", ACTIVATION, "tanh", WEIGHTS, "classifier_activation", "that of the heads"),
    _probability("dropout", 0.1, "hidden_dropout_prob", "dropout probability"),
    _probability("attention_dropout", 0.1, "attention_probs_dropout_prob", "that of the attention weights"),
    _probability("activation_dropout", 0.0, "activation_dropout", "that after the activation function"),
    _probability("pooler_dropout", 0.0, "classifier_dropout", "that of the classification heads"),
    Flag("embedding_init_std", POSITIVE, 0.02, WEIGHTS, None, "standard deviation of new embeddings", "S"),
    Flag("untie_weights_roberta", INVERTED, False, WEIGHTS, "tie_word_embeddings", "own output matrix"),
    _switch("load_checkpoint_heads", "(re-)register and load heads when loading"),
    _switch("checkpoint_activations", "recompute layers in the backward pass"),
    _switch("compile", "compile layers and loss with torch.compile; lengths go up to a multiple of 8"),
    _switch("cuda_graph", "as --compile, the encoder as one graph, on a GPU as a CUDA graph"),
)
# of the encoder that both models share; the MLM, whose tokens have one copy, leaves it at its default
ROPE_DIMENSIONS = Flag(
    name="rope_dimensions",
    values=Values(int, choices=(1, 2)),
    default=2,
    decides=FUNCTION,
    config="rope_dimensions",
    help="2 (default): a token's index and copy; 1: index in the expanded sentence (w/o 2D RoPE)",
)
EXLM_FLAGS = (
    *MLM_FLAGS,
    Flag("ext_state_num", SIZE, 4, FUNCTION, "num_states", "states of an expanded token (k; default 4)", "K"),
    Flag(
        name="links_feature",
        values=FEATURES,
        default="feature:position",
        decides=WEIGHTS,
        config="links_features",
        help="what transitions are computed from: feature, position (the node's), feature:position "
        "(default), or feature:distance, of the distances to the expanded tokens before and after (not in "
        "the paper)",
        metavar="A:B",
    ),
    Flag(
        name="max_transition_length",
        values=LENGTH,
        default=-1,
        decides=FUNCTION,
        config="max_transition_length",
        help="longest transition, in nodes; -1 (default) for any",
        metavar="N",
    ),
    Flag(
        name="state_graph",
        values=Values(str, choices=STATE_GRAPHS),
        default="dag",
        decides=FUNCTION,
        config="state_graph",
        help="transitions of a state: dag (default, the paper's): to all later ones; local: to the next "
        "2 K - 1 (not in the paper); sparse: to those of all later tokens (table 13); lattice: to those "
        "of the next expanded token (not in the paper)",
    ),
    Flag(
        name="state_embedding_scale",
        values=SCALE,
        default=0.0,
        decides=WEIGHTS,
        config="state_embedding",
        help="learn for each of the K states a vector, added to its nodes before the last layer norm, and a "
        "bias of its logits, of initial standard deviations R / 2 and 2 R (not in the paper; default 0: "
        "none; 1 keeps states apart)",
        metavar="R",
    ),
    Flag(
        name="expand_from_layer",
        values=LENGTH,
        default=0,
        decides=FUNCTION,
        config="expand_from_layer",
        help="copy tokens into their states after the first J layers, which see each once, or -1: after all "
        "(not in the paper; default 0: before the first layer)",
        metavar="J",
    ),
    ROPE_DIMENSIONS,
)
# what config.json has of a model without states
WITHOUT_STATES = {f.config: f.values.to_config(f.default) for f in EXLM_FLAGS if f not in MLM_FLAGS}
WITHOUT_STATES |= {"num_states": None, "links_features": []}


def add_flags(parser: argparse.ArgumentParser, flags: Iterable[Flag]) -> None:
    for flag in flags:
        more = {"type": flag.values, "metavar": flag.metavar, "choices": flag.values.choices}
        more = {"action": "store_true"} if flag.values.type is bool else more
        parser.add_argument(flag.option, help=flag.help, **more)


def set_defaults(args, **defaults) -> None:
    """Sets those of fairseq's arguments that are open."""
    for name, value in defaults.items():
        if getattr(args, name, None) is None:
            setattr(args, name, value)


def defaults_of(flags: Iterable[Flag]) -> dict[str, Any]:
    """Returns {name of the flag: default} of the flags that have one."""
    return {flag.name: flag.default for flag in flags if flag.default is not None}


def to_config(args, states: bool) -> dict[str, Any]:
    """Returns {name in config.json: value} of a model's arguments; ``states``: whether it is an ExLM."""
    own = {flag.config: flag.values.to_config(getattr(args, flag.name)) for flag in _exported(states)}
    return own if states else WITHOUT_STATES | own


def from_config(config: dict[str, Any]) -> dict[str, Any]:
    """Returns {name of the flag: value} of a config.json; of a flag that is newer than it, the default.
    Raises ValueError for a size that is missing, or a value that no flag has."""
    values = {}
    for flag in _exported(bool(config.get("num_states"))):
        field = config[flag.config] if flag.config in config else flag.values.to_config(flag.default)
        values[flag.name] = flag.values.from_config(field)
    return values


def _exported(states: bool) -> list[Flag]:
    return [flag for flag in (EXLM_FLAGS if states else (*MLM_FLAGS, ROPE_DIMENSIONS)) if flag.config]
