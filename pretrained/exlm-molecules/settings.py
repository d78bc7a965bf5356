"""The settings of a model, each defined once, by the name of its flag of fairseq-train.

``models/flags.py`` makes the flags of these classes; checkpoints hold their values; config.json of an
exported ExLM has them as they are.
"""

from dataclasses import dataclass, field
from typing import Any

from .encoder import ACTIVATIONS
from .transitions import GRAPHS

FEATURES = ("feature:position", "position:feature", "feature", "position")
TRANSFORMERS = {  # names in transformers -> here
    "num_hidden_layers": "encoder_layers",
    "hidden_size": "encoder_embed_dim",
    "intermediate_size": "encoder_ffn_embed_dim",
    "num_attention_heads": "encoder_attention_heads",
    "max_position_embeddings": "max_positions",
    "hidden_dropout_prob": "dropout",
    "attention_probs_dropout_prob": "attention_dropout",
}


def setting(default, help: str, **more) -> Any:
    """Returns a field that is also a flag: ``help``, ``metavar`` and ``choices`` are those of argparse."""
    return field(default=default, metadata={"help": help, **more})


@dataclass(kw_only=True, repr=False, eq=False)
class MLMSettings:
    """The settings of the vanilla MLM."""

    encoder_layers: int = setting(12, "number of layers", metavar="N")
    encoder_embed_dim: int = setting(768, "hidden size", metavar="D")
    encoder_ffn_embed_dim: int = setting(3072, "hidden size of the feed-forward networks", metavar="F")
    encoder_attention_heads: int = setting(12, "number of attention heads", metavar="H")
    max_positions: int = setting(2048, "most tokens of a sentence, after any expansion", metavar="N")
    encoder_normalize_before: bool = setting(False, "pre-norm: norm before blocks")
    activation_fn: str = setting("gelu", "activation function of the encoder", choices=tuple(ACTIVATIONS))
    pooler_activation_fn: str = setting(
        "tanh", "activation function of the heads", choices=tuple(ACTIVATIONS)
    )
    dropout: float = setting(0.1, "dropout probability", metavar="P")
    attention_dropout: float = setting(0.1, "dropout probability of the attention weights", metavar="P")
    activation_dropout: float = setting(0.0, "dropout probability after the activation function", metavar="P")
    pooler_dropout: float = setting(0.0, "dropout probability of the classification heads", metavar="P")
    untie_weights_roberta: bool = setting(False, "own output matrix")
    rope_dimensions: int = setting(
        2,
        "2 (default): a token's index and copy; 1: index in the expanded sentence (w/o 2D RoPE)",
        choices=(1, 2),
    )
    vocab_size: int = 50265
    bos_token_id: int = 0
    pad_token_id: int = 1
    eos_token_id: int = 2
    unk_token_id: int = 3
    mask_token_id: int = 50264

    def validate_settings(self) -> None:
        """Raises ValueError for settings that do not go together."""
        if self.encoder_embed_dim % (parts := self.encoder_attention_heads * 2 * self.rope_dimensions):
            raise ValueError(
                f"--encoder-embed-dim {self.encoder_embed_dim}: it must be a multiple of {parts}"
            )


@dataclass(kw_only=True, repr=False, eq=False)
class ExLMSettings(MLMSettings):
    """The settings of an ExLM."""

    ext_state_num: int = setting(4, "states of an expanded token (k; default 4, exlm_smiles 2)", metavar="K")
    links_feature: str = setting(
        "feature:position",
        "what transitions are computed from: feature, position (the node's), or feature:position (default)",
        choices=FEATURES,
        metavar="A:B",
    )
    max_transition_length: int = setting(
        -1, "longest transition, in nodes; -1 (default) for any", metavar="N"
    )
    state_graph: str = setting(
        "dag",
        f"transitions of a state: {'; '.join(f'{name}: to {nodes}' for name, nodes in GRAPHS.items())}",
        choices=tuple(GRAPHS),
    )

    def validate_settings(self) -> None:
        super().validate_settings()
        k, length = self.ext_state_num, self.max_transition_length
        if k < 1:
            raise ValueError(f"--ext-state-num {k}: it must be at least 1")
        if length != -1 and length < (least := 2 * k - 1):
            raise ValueError(
                f"--max-transition-length {length} leaves sentences without a path from <s> to </s>: with k "
                f"= {k} it must be at least {least}, or -1 for any length"
            )
