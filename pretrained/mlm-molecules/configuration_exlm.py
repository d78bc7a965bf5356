"""Settings of an ExLM, or of a masked language model to compare it with; imports transformers only."""

import difflib
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Literal

from huggingface_hub.dataclasses import strict, validated_field
from transformers import PreTrainedConfig

FEATURES = ("feature", "position", "distance")


def _field(default: Any, fits: Callable[[Any], bool], what: str) -> Any:
    """Returns a field of these defaults, of values that fit; None is left to its type."""

    def check(value):
        if value is not None and not fits(value):
            raise ValueError(f"it must be {what}, got {value!r:.200}")

    return validated_field(check, default=default)


def _size(default: int | None, low: int = 1) -> Any:
    return _field(default, lambda value: low <= value <= 2**20, f"a whole number from {low} to {2**20}")


@strict
class ExLMConfig(PreTrainedConfig):
    """Settings of the models in ``modeling_exlm``; other names are as in RoBERTa's configuration.

    Args:
        num_states: k, the states of each ``<s>``, ``</s>`` and masked token; None for a model without states
            (the vanilla MLM).
        alignment: how states align to targets: "dag", by paths through the graph of states, or "ctc", within
            each token, without transitions.
        repeat_times: times that each token is repeated inside the model (Repeated MLM).
        expand_from_layer: how many of the first layers see each token once, before it is copied into its
            states.
        rope_dimensions: 2: rotary positions are (index of the token, number of its state); 1: index among all
            states and tokens.
        links_features: what transitions are computed from: "feature", and "position" or "distance".
        state_graph: transitions of a state: "dag": to all later ones; "local": to the next 2 num_states - 1;
            "sparse": to those of all later tokens; "lattice": to those of the next expanded token.
        max_transition_length: longest transition of "dag" and "sparse", in nodes; -1 for any.
        state_embedding: whether each of the states has a learned vector, added to its nodes before the last
            layer norm, and a learned bias of its logits.
        norm_first: layer norm before each block (pre-norm) instead of after it.
        max_position_embeddings: most tokens of a sequence, the additional states counted.
        classifier_dropout, classifier_activation: of the head for sequences.
        unk_token_id: of ``<unk>``, which is also the blank of "ctc".
        tokenizer_size: ids of the tokenizer, if they are more than ``vocab_size``: tokens that the vocabulary
            lacks have ids from ``vocab_size`` on, and are read as ``<unk>``.
    """

    model_type = "exlm"
    keys_to_ignore_at_inference = ["links", "node_logits"]  # Trainer cannot join graphs of different sizes

    vocab_size: int = _size(50265)
    tokenizer_size: int | None = _size(None)
    hidden_size: int = _size(768)
    num_hidden_layers: int = _size(12)
    num_attention_heads: int = _size(12)
    intermediate_size: int = _size(3072)
    hidden_act: str = "gelu"
    norm_first: bool = True
    num_states: int | None = _size(4)
    alignment: Literal["dag", "ctc"] = "dag"
    repeat_times: int = _size(1)
    rope_dimensions: Literal[1, 2] = 2
    expand_from_layer: int = _size(0, 0)
    links_features: list[str] | tuple[str, ...] = _field(
        ("feature", "position"),
        lambda value: set(value) <= {*FEATURES} and len(set(value)) == len(value),
        f"a list of {', '.join(FEATURES)}",
    )
    state_graph: Literal["dag", "local", "sparse", "lattice"] = "dag"
    max_transition_length: int = _size(-1, -1)
    state_embedding: bool = False
    max_position_embeddings: int = _size(2048)
    hidden_dropout_prob: float | int = 0.1
    attention_probs_dropout_prob: float | int = 0.1
    activation_dropout: float | int = 0.0
    classifier_dropout: float | int = 0.0
    classifier_activation: str = "tanh"
    layer_norm_eps: float | int = 1e-5
    initializer_range: float | int = 0.02
    bos_token_id: int = _size(0, 0)
    pad_token_id: int = _size(1, 0)
    eos_token_id: int = _size(2, 0)
    unk_token_id: int = _size(3, 0)
    mask_token_id: int = _size(50264, 0)
    tie_word_embeddings: bool = True

    def __post_init__(self, **kwargs):
        names = [field.name for field in fields(self)]
        for name in kwargs.keys() - set(dir(PreTrainedConfig())):  # which would be kept, and not used
            if similar := difflib.get_close_matches(name, names, 1, 0.85):
                raise ValueError(f"there is no setting {name}: did you mean {similar[0]}?")
        super().__post_init__(**kwargs)

    def validate_fields_together(self):
        """Raises an error for settings that do not go together."""
        if self.expand_from_layer > (self.num_hidden_layers if self.num_states else 0):
            raise ValueError(
                f"expand_from_layer {self.expand_from_layer} is more than the layers with states"
            )
        if self.repeat_times > 1 and self.num_states is not None:
            raise ValueError(f"repeat_times must be 1 with num_states, got {self.repeat_times}")
        if self.num_states and not self.links_features:
            raise ValueError("links_features is empty")
        if self.hidden_size % (part := self.num_attention_heads * 2 * self.rope_dimensions):
            raise ValueError(f"hidden_size must be a multiple of {part}, got {self.hidden_size}")
