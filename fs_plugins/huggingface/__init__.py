"""Exports of checkpoints: an MLM as transformers' ESM, an ExLM by the code here, which imports no fairseq."""
