"""Optimizers, registered with fairseq."""

from fs_plugins.optim import fused_adamw
