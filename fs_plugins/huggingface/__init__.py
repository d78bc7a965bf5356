"""Checkpoints as folders for transformers, and back.

``modeling_exlm.py`` and the files named beside it in ``export.CODE`` are copied into each folder; they import
neither this package nor fairseq.
"""
