"""What a trained model says: readings of a sentence with masks (appendix P), and embeddings.

Measures that compare models are commands, ``python -m fs_plugins.measures MEASURE CHECKPOINT``.

>>> from fs_plugins.inference import load
>>> load("checkpoints/exlm/checkpoint_best.pt").fill("This is <mask>.").best.text
"""

from fs_plugins.checkpoint import Checkpoint, load_checkpoint
from fs_plugins.inference.explorer import Explorer, Filling, load
from fs_plugins.inference.stream import load_text_model

__all__ = [
    "Checkpoint",
    "Explorer",
    "Filling",
    "load",
    "load_checkpoint",
    "load_text_model",
]
