"""Tasks of pre-training; importing this registers them with fairseq."""

from fs_plugins.tasks import repeated_masked_lm
