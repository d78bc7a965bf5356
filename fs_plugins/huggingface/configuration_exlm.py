"""Settings of an ExLM for transformers."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from fs_plugins.exlm.settings import ExLMSettings


@strict
class ExLMConfig(ExLMSettings, PreTrainedConfig):
    """The settings of :class:`ExLMSettings`, which says what each is; the sizes also by RoBERTa's names."""

    model_type = "exlm"
    attribute_map = {
        "num_hidden_layers": "encoder_layers",
        "hidden_size": "encoder_embed_dim",
        "intermediate_size": "encoder_ffn_embed_dim",
        "num_attention_heads": "encoder_attention_heads",
        "max_position_embeddings": "max_positions",
    }
    keys_to_ignore_at_inference = ["links", "node_logits"]  # Trainer cannot join graphs of different sizes

    initializer_range: float = 0.02

    @property
    def tie_word_embeddings(self) -> bool:
        return not self.untie_weights_roberta
