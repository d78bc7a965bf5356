"""What a trained model says: readings of a sentence with masks (appendix P), and embeddings.

Measures that compare models have a command each, ``python -m fs_plugins.analysis.NAME``: ``probe``,
``joint_likelihood``, ``filling``, ``atom_probe``, ``use_of_states`` and ``corpus_entropy``.

>>> from fs_plugins.analysis import load
>>> load("checkpoints/exlm/checkpoint_best.pt").fill("This is <mask>.").best.text
"""

from fs_plugins.analysis.checkpoint import Checkpoint, load_checkpoint
from fs_plugins.analysis.explorer import Explorer, Filling, load
from fs_plugins.analysis.sentences import TextModel, load_text_model

__all__ = [
    "Checkpoint",
    "Explorer",
    "Filling",
    "TextModel",
    "load",
    "load_checkpoint",
    "load_text_model",
]
