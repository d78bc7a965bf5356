"""What a training computes faster, or in less memory, than exlm/, with the same results; see
docs/performance.md.

:func:`accelerate` is the one place where it is chosen; the criteria take the scores of words from
``match_scores``.
"""

from torch import nn

from fs_plugins.exlm.encoder import Attention, EncoderLayer
from fs_plugins.speed.dropout import Dropout
from fs_plugins.speed.layers import LeanAttention, LeanLayer

# each class, and the one with the same parameters that takes its place
REPLACED = {nn.Dropout: Dropout, Attention: LeanAttention, EncoderLayer: LeanLayer}


def accelerate(model: nn.Module) -> nn.Module:
    """Returns the model, whose parts are replaced."""
    for module in model.modules():
        module.__class__ = REPLACED.get(type(module), type(module))
    return model
