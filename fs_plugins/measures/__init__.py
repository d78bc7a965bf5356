"""Measures of trained models, the same for all: ``python -m fs_plugins.measures MEASURE CHECKPOINT``."""
