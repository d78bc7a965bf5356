"""What trained models know, measured alike for all: ``python -m fs_plugins.measures MEASURE CHECKPOINT``."""
