"""What the scripts have to know of a checkpoint before training: its architecture and dictionary."""

from __future__ import annotations

import argparse
import pickle
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.data import Dictionary
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

import fs_plugins  # noqa: F401  (what torch.load may load, and the architectures)
from fs_plugins.analysis.checkpoint import find_dictionary
from fs_plugins.data.property_info import fingerprint
from moleculenet.reading import InputError

EMBEDDING = "encoder.sentence_encoder.embed_tokens.weight"
VALUES = (
    *("encoder_layers", "encoder_embed_dim", "encoder_ffn_embed_dim", "encoder_attention_heads"),
    *("max_positions", "activation_fn", "pooler_activation_fn", "embedding_init_std"),
    *("ext_state_num", "links_feature", "max_transition_length", "rope_dimensions"),
)
SWITCHES = ("encoder_normalize_before", "untie_weights_roberta", "sparse_dag")


def read_state(path: Path) -> tuple[dict, argparse.Namespace]:
    """The checkpoint, and its configuration by group.

    Raises:
        InputError: if it is no checkpoint of this package's models.
    """
    if not path.is_file():
        raise InputError(f"the checkpoint {path} is not there, or no file")
    try:
        state = checkpoint_utils.load_checkpoint_to_cpu(str(path))
        state["model"][EMBEDDING]
    except (KeyError, TypeError, IndexError) as error:
        raise InputError(f"{path} is no checkpoint of ExLM or of the MLM ({error!r})") from error
    except (RuntimeError, pickle.UnpicklingError) as error:
        raise InputError(str(error)) from error
    cfg = state.get("cfg")
    if cfg is None and state.get("args") is not None:
        cfg = convert_namespace_to_omegaconf(state["args"])
    if cfg is None:
        raise InputError(f"{path} has no flags of its run, neither 'cfg' nor 'args'")
    return state, cfg


def model_flags(cfg) -> list[str]:
    """--arch and sizes, so that fairseq-train builds the checkpoint's model."""
    model = cfg.model
    arch = getattr(model, "arch", None) or getattr(model, "_name", None)
    if arch is None:
        raise InputError("the checkpoint does not say its --arch")
    flags = ["--arch", str(arch)]
    for name in VALUES:
        if getattr(model, name, None) is not None:
            flags += [f"--{name.replace('_', '-')}", str(getattr(model, name))]
    return flags + [f"--{name.replace('_', '-')}" for name in SWITCHES if getattr(model, name, False)]


def check_dictionary(path: Path, state: dict, cfg, dictionary: Dictionary) -> str:
    """Compares the data's dictionary (without <mask>) with the checkpoint's.

    Returns:
        What was compared: "symbols", or "size" where the checkpoint's own is not to be found.

    Raises:
        InputError: if they differ.
    """
    own = state.get("task_state", {}).get("molecule_property", {}).get("symbols")
    where = str(path)
    if own is None:
        try:
            folder = find_dictionary(path, getattr(cfg.task, "data", None), None)
            own = Dictionary.load(str(folder / "dict.txt")).symbols
            where = str(folder / "dict.txt")
        except FileNotFoundError:
            own = None
    rows = len(state["model"][EMBEDDING])
    if rows != len(dictionary) + 1:
        raise InputError(
            f"the checkpoint {path} has {rows} dictionary entries (with <mask>), the data's dictionary "
            f"{len(dictionary) + 1}: prepare the data with the dict.txt of its pre-training"
        )
    # a folder may have been filled anew since: of another size, it says nothing
    if own is None or len([symbol for symbol in own if symbol != "<mask>"]) != len(dictionary):
        return "size"
    if fingerprint(own) != fingerprint(dictionary.symbols):
        mine = [symbol for symbol in own if symbol != "<mask>"]
        at = next(
            i for i, pair in enumerate(zip(mine, dictionary.symbols, strict=True)) if pair[0] != pair[1]
        )
        raise InputError(
            f"the data's dictionary is not that of the checkpoint ({where}), though as long: entry {at} is "
            f"{dictionary.symbols[at]!r}, there {mine[at]!r}; prepare the data with the latter"
        )
    return "symbols"
