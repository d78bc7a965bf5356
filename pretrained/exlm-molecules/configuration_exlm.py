"""Settings of an ExLM for transformers."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from .settings import TRANSFORMERS, ExLMSettings


@strict
class ExLMConfig(ExLMSettings, PreTrainedConfig):
    """The settings of :class:`ExLMSettings`, which says what each is; also by transformers' names."""

    model_type = "exlm"
    attribute_map = TRANSFORMERS
    keys_to_ignore_at_inference = ["links", "node_logits"]  # Trainer cannot join graphs of different sizes

    initializer_range: float = 0.02

    @property
    def tie_word_embeddings(self) -> bool:
        return not self.untie_weights_roberta
