"""Settings of an ExLM, or of a masked language model to compare it with; imports transformers only."""

import difflib

from transformers import PreTrainedConfig
from transformers.activations import ACT2FN

# what fields may be: whole numbers from the least one, also None; numbers up to the largest one; ...
SIZES = {
    **dict.fromkeys(("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"), 1),
    **dict.fromkeys(("intermediate_size", "max_position_embeddings", "repeat_times", "num_states"), 1),
    **dict.fromkeys(("bos_token_id", "pad_token_id", "eos_token_id", "unk_token_id", "mask_token_id"), 0),
    **{"tokenizer_size": 1, "expand_from_layer": 0, "max_transition_length": -1},
}
OPTIONAL = ("num_states", "tokenizer_size")
PROBABILITIES = ("hidden_dropout_prob", "attention_probs_dropout_prob", "activation_dropout")
NUMBERS = {**dict.fromkeys((*PROBABILITIES, "classifier_dropout", "layer_norm_eps"), 1)}
NUMBERS["initializer_range"] = 1e6
CHOICES = {
    "alignment": ("dag", "ctc"),
    "state_graph": ("dag", "local", "sparse", "lattice"),
    "rope_dimensions": (1, 2),
    **dict.fromkeys(("norm_first", "state_embedding", "tie_word_embeddings"), (False, True)),
}
FEATURES = ("feature", "position", "distance")


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

    def __init__(
        self,
        vocab_size=50265,
        tokenizer_size=None,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
        hidden_act="gelu",
        norm_first=True,
        num_states=4,
        alignment="dag",
        repeat_times=1,
        rope_dimensions=2,
        expand_from_layer=0,
        links_features=("feature", "position"),
        state_graph="dag",
        max_transition_length=-1,
        state_embedding=False,
        max_position_embeddings=2048,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        activation_dropout=0.0,
        classifier_dropout=0.0,
        classifier_activation="tanh",
        layer_norm_eps=1e-5,
        initializer_range=0.02,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
        unk_token_id=3,
        mask_token_id=50264,
        tie_word_embeddings=True,
        **kwargs,
    ):
        own = {name: value for name, value in locals().items() if name not in ("self", "kwargs", "__class__")}
        check(own)
        if expand_from_layer > (num_hidden_layers if num_states else 0):
            raise ValueError(
                f"expand_from_layer must be 0 to num_hidden_layers, {num_hidden_layers}, and 0 without "
                f"num_states, got {expand_from_layer}"
            )
        if repeat_times > 1 and num_states is not None:
            raise ValueError(f"repeat_times must be at least 1, and 1 with num_states, got {repeat_times}")
        super().__init__(**kwargs)
        for name, value in own.items():  # after the parent's, so that none of its defaults wins
            setattr(self, name, value)
        known = dir(PreTrainedConfig())
        for name in kwargs.keys() - set(known):
            if similar := difflib.get_close_matches(name, own, 1, 0.85):
                raise ValueError(f"there is no setting {name}: did you mean {similar[0]}?")


def check(settings):
    """Raises a ValueError for a setting that is not of its type, or out of its range."""
    for name, value in settings.items():
        if name in SIZES:
            whole = isinstance(value, int) and not isinstance(value, bool)
            fits = (whole and SIZES[name] <= value <= 2**20) or (value is None and name in OPTIONAL)
            what = f"a whole number from {SIZES[name]}"
        elif name in NUMBERS:
            fits = isinstance(value, (int, float)) and not isinstance(value, bool)
            fits = fits and 0 <= value <= NUMBERS[name]
            what = f"a number from 0 to {NUMBERS[name]}"
        elif name in CHOICES:
            fits = any(type(value) is type(choice) and value == choice for choice in CHOICES[name])
            what = f"one of {', '.join(map(str, CHOICES[name]))}"
        elif name == "links_features":
            fits = isinstance(value, (list, tuple)) and all(part in FEATURES for part in value)
            fits = fits and len(set(value)) == len(value) and (value or settings["num_states"] is None)
            what = "a list of feature, position, distance"
        else:
            fits, what = isinstance(value, str) and value in ACT2FN, "an activation function of transformers"
        if not fits:
            raise ValueError(f"{name} must be {what}, got {value!r:.200}")
    part = settings["num_attention_heads"] * 2 * settings["rope_dimensions"]
    if settings["hidden_size"] % part:
        raise ValueError(
            f"hidden_size must be a multiple of {part} with num_attention_heads "
            f"{settings['num_attention_heads']} and rope_dimensions {settings['rope_dimensions']}, got "
            f"{settings['hidden_size']}"
        )
