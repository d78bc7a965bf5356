"""Checkpoints as folders for transformers, and back."""
