"""Settings of an ExLM, or of a masked language model to compare it with, for transformers."""

import difflib
from dataclasses import fields

from huggingface_hub.dataclasses import strict
from transformers import PreTrainedConfig

from fs_plugins.exlm.settings import SIZE, Settings, setting


@strict
class ExLMConfig(Settings, PreTrainedConfig):
    """The settings of :class:`Settings`, which says what each is and takes; other names are as in RoBERTa's
    configuration."""

    model_type = "exlm"
    keys_to_ignore_at_inference = ["links", "node_logits"]  # Trainer cannot join graphs of different sizes

    tokenizer_size: int | None = setting(
        None,
        SIZE,
        None,
        "ids of the tokenizer, if they are more than ``vocab_size``: tokens that the vocabulary lacks have "
        "ids from ``vocab_size`` on, and are read as ``<unk>``",
    )
    initializer_range: float | int = 0.02

    def __post_init__(self, **kwargs):
        names = [field.name for field in fields(self)]
        for name in kwargs.keys() - set(dir(PreTrainedConfig())):  # would be kept, and not used
            if similar := difflib.get_close_matches(name, names, 1, 0.85):
                raise ValueError(f"there is no setting {name}: did you mean {similar[0]}?")
        super().__post_init__(**kwargs)
