"""Settings of an ExLM for transformers."""

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from fs_plugins.exlm.settings import Settings


@strict
class ExLMConfig(Settings, PreTrainedConfig):
    """The settings of :class:`Settings`, which says what each is and takes; other names are as in RoBERTa's
    configuration."""

    model_type = "exlm"
    keys_to_ignore_at_inference = ["links", "node_logits"]  # Trainer cannot join graphs of different sizes

    initializer_range: float | int = 0.02
