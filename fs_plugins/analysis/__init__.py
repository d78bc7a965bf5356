"""What a trained model says: readings of a sentence with masks (appendix P), and embeddings.

Measures that compare models are commands, ``python -m fs_plugins.analysis MEASURE CHECKPOINT``.

>>> from fs_plugins.analysis import load
>>> load("checkpoints/exlm/checkpoint_best.pt").fill("This is <mask>.").best.text
"""

from fs_plugins.analysis.explorer import Explorer, Filling, load
from fs_plugins.analysis.stream import load_text_model
from fs_plugins.models.checkpoint import Checkpoint, load_checkpoint

__all__ = [
    "Checkpoint",
    "Explorer",
    "Filling",
    "load",
    "load_checkpoint",
    "load_text_model",
]
