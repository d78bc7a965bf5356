"""A trained model from Python: embeddings, predictions, filled masks, and graphs of states (appendix P).

>>> from fs_plugins.inference import load
>>> load("checkpoints/exlm/checkpoint_best.pt").fill("This is <mask>.").text
"""

from fs_plugins.inference.trained_model import Filled, Model, load

__all__ = ["Filled", "Model", "load"]
