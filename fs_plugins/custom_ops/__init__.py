"""Compiled operators of ExLM; independent of fairseq."""
