"""Tasks; importing this registers them with fairseq."""

from fs_plugins.tasks import repeated_masked_lm, repeated_sentence_prediction

__all__ = ["repeated_masked_lm", "repeated_sentence_prediction"]
