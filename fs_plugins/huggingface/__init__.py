"""Checkpoints as folders for transformers, and back.

``modeling_exlm.py`` and the files named beside it in ``code_files.CODE`` are copied into each folder; they
can be imported without fairseq.
"""
