"""Settings of an ExLM, or of a masked language model to compare it with; imports transformers only."""

try:
    from transformers import PreTrainedConfig
except ImportError:  # transformers 4
    from transformers import PretrainedConfig as PreTrainedConfig

ALIGNMENTS = ("dag", "ctc")


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
        links_features: what transitions are computed from: "feature", "position" or both.
        state_graph: transitions of a state: "dag": to all later ones; "local": to the next 2 num_states - 1;
            "sparse": to those of all later tokens; "lattice": to those of the next expanded token.
        max_transition_length: longest transition of "dag" and "sparse", in nodes; -1 for any.
        state_embedding: whether each of the states has a learned vector, added to its nodes' features, and a
            learned bias of its logits.
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
        if alignment not in ALIGNMENTS:
            raise ValueError(f"alignment is one of {', '.join(ALIGNMENTS)}, got {alignment!r}")
        if num_states is not None and num_states < 1:
            raise ValueError(
                f"num_states must be at least 1, or None for a model without states, got {num_states}"
            )
        if not 0 <= expand_from_layer <= (num_hidden_layers if num_states else 0):
            raise ValueError(
                f"expand_from_layer must be 0 to num_hidden_layers, {num_hidden_layers}, and 0 without "
                f"num_states, got {expand_from_layer}"
            )
        if repeat_times < 1 or (repeat_times > 1 and num_states is not None):
            raise ValueError(f"repeat_times must be at least 1, and 1 with num_states, got {repeat_times}")
        super().__init__(**kwargs)
        for name, value in own.items():  # after the parent's, so that none of its defaults wins
            setattr(self, name, value)
