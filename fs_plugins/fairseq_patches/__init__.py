"""Replacements of fairseq's functions, each with its reason; others' models train as without it."""

from fs_plugins.fairseq_patches import ending, messages, repairs, saving, updates
