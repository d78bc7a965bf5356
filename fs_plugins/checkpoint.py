"""Trained models: what a checkpoint of fairseq holds, and where its dictionary is."""

import argparse
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from fairseq import utils
from fairseq.data import Dictionary
from fairseq.models import build_model
from omegaconf import DictConfig

from fs_plugins import criterions
from fs_plugins.checkpoint_settings import read_settings
from fs_plugins.data.smiles_tokens import is_smiles
from fs_plugins.data.text_codecs import Codec, Smiles, make_codec
from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary, dictionary_file, read_dictionary
from fs_plugins.files import naming_errors
from fs_plugins.finetuning.outputs import Outputs, PropertyInfo
from fs_plugins.models.exlm import ExLMModel
from fs_plugins.models.mlm import RotaryRobertaModel

logger = logging.getLogger(__name__)
LAYERS = "encoder.sentence_encoder.layers."  # beginning of the names of layers' weights


@dataclass
class Checkpoint:
    """A trained model."""

    path: Path  # the file, or the folder for transformers
    model: RotaryRobertaModel  # model in evaluation mode, on ``device``
    dictionary: Dictionary  # includes ``<mask>``
    # the folder of the dictionary; None where the checkpoint, or the folder, holds it itself
    data: Path | None
    cfg: DictConfig  # the flags of the run, by group, as fairseq keeps them
    device: torch.device  # device of the model
    # state that tasks keep in the file, by name; empty for most
    task_state: dict = field(default_factory=dict)
    updates: int | None = None  # number of updates of its training; None if the file does not say
    # score of the last validation, by ``--best-checkpoint-metric``; None if there was none
    score: float | None = None
    # outputs of a head that transformers trained, if they are no properties of molecules
    outputs: Outputs | None = None
    smiles: str | None = None  # form of its molecules, as of ``smiles_form``, if the folder says so
    # encoding of its corpus, as of ``make_codec``, if the model's folder says so
    written: str | None = None
    # beginnings of the names of parameters that the folder lacks, which are as initialised
    missing: tuple[str, ...] = ()

    @property
    def arch(self) -> str:
        return self.cfg.model._name

    @property
    def criterion(self) -> str:
        return self.cfg.criterion._name

    @property
    def task(self) -> str:
        return self.cfg.task._name

    @property
    def k(self) -> int | None:
        """Returns the number of states of each masked token; None for a model without states."""
        return self.model.encoder.k if isinstance(self.model, ExLMModel) else None

    @property
    def has_transitions(self) -> bool:
        """Returns whether transitions between states were trained. A fine-tuning does not train them, nor
        does it say what was pre-trained: there biases that are still zero, as initialised, tell."""
        if self.k is None or criterions.find_states_criterion(self.criterion):
            return criterions.trains_transitions(self.criterion)
        return bool(self.model.encoder.query_linear.bias.any())

    @property
    def alignment(self) -> str:
        """Returns how states align to targets, "dag" or "ctc"; see ``has_transitions``."""
        if criterion := criterions.find_states_criterion(self.criterion):
            return criterion.alignment
        return "dag" if self.k is None or self.has_transitions else "ctc"

    @property
    def copies(self) -> int:
        """Returns the copies of each token (Repeated MLM); 1 for other models."""
        return getattr(self.cfg.task, "repeat_times", None) or 1

    @property
    def properties(self) -> PropertyInfo | None:
        """Returns the properties that its task predicts, if it keeps them in checkpoints; else None."""
        held = self.task_state.get(self.task)
        return PropertyInfo.from_dict(held) if held else None

    def codec(self, bpe: str | Sequence[str] | None = None) -> Codec:
        """Returns the codec of its corpus: of ``bpe``, else as its folder says, else SMILES if its dictionary
        is one of them, else what ``make_codec`` finds."""
        if self.properties or (not (bpe or self.written) and is_smiles(self.dictionary.symbols)):
            return Smiles()
        return make_codec(bpe or self.written, self.data, self.dictionary)


def load_checkpoint(
    path: str | os.PathLike, data: str | os.PathLike | None = None, device: str | None = None
) -> Checkpoint:
    """Reads a checkpoint of ``--arch p_roberta*``, ``mlm_*``, ``p_roberta_ext_denselink*`` or ``exlm_*``.

    Args:
        path: a file that fairseq-train saved; read with ``weights_only``, so that it cannot run code.
        data: folder with the ``dict.txt`` of the training; by default the one that the checkpoint names,
            also looked for beside the checkpoint and in the folders above it, of GLUE in its ``input0``.
            A task may keep its dictionary in its checkpoints, as ``molecule_property`` does.
        device: "cpu", "cuda", "cuda:1", ...; by default a GPU where there is one.

    Raises:
        FileNotFoundError: if there is no such file, or no dictionary.
        ValueError: for another kind of model, a dictionary of another size (or, where the checkpoint holds
            its own, other symbols), or a device that does not exist.
    """
    path = Path(path)
    state, cfg = read_state(path)
    dictionary, folder = _dictionary(path, cfg, state.get("task_state") or {}, data)
    cfg.model.load_checkpoint_heads = True
    with naming_errors(path):
        model = untrained_model(cfg, dictionary, state["model"])
    logger.info("%s: %s, dictionary of %d in %s", path, cfg.model._name, len(dictionary), folder or path)
    return trained(path, model, state, cfg, dictionary, device, data=folder)


def untrained_model(cfg: DictConfig, dictionary: Dictionary, weights: dict) -> RotaryRobertaModel:
    """Returns a new model of these flags; the state of the random numbers stays as it is. Raises ValueError
    if the weights that it is for are of another number of layers."""
    layers = {name.split(".")[3] for name in weights if name.startswith(LAYERS)}
    if len(layers) != cfg.model.encoder_layers:
        raise ValueError(f"{cfg.model.encoder_layers} layers, weights of {len(layers)}: mend its settings")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
        return build_model(cfg.model, task)


def trained(path: Path, model, state: dict, cfg, dictionary, device: str | None, **about) -> Checkpoint:
    """Returns a model with the weights of a state, which is as fairseq-train saves it; ``about``: what else a
    Checkpoint has. Raises ValueError for weights of another model, or no such device."""
    with naming_errors(path):
        model.load_state_dict(state["model"], strict=True, model_cfg=cfg.model)
        outputs = Outputs.from_dict(state["outputs"]) if state.get("outputs") else None
    about["task_state"] = state.get("task_state") or {}
    about["updates"] = (state.get("optimizer_history") or [{}])[-1].get("num_updates")
    about["score"] = (state.get("extra_state") or {}).get("val_loss")
    with naming_errors(f"device {device}"):
        target = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model = model.to(target).eval()
    return Checkpoint(path, model, dictionary, cfg=cfg, device=target, outputs=outputs, **about)


def read_state(path: Path) -> tuple[dict, DictConfig]:
    """Returns what fairseq-train saved, and the flags of the run by group; no model is built. Raises
    ValueError if it is not a checkpoint, or of another kind of model."""
    with naming_errors(path):
        state = torch.load(path, map_location="cpu", weights_only=True)
        return state, read_settings(state)


def _dictionary(path: Path, cfg, task_state: dict, data) -> tuple[Dictionary, Path | None]:
    """Returns the dictionary that a task kept in the checkpoint, or that of a folder, with the folder."""
    held = (task_state.get(cfg.task._name) or {}).get("symbols")
    asked = held is None or data is not None
    folder = find_dictionary(path, getattr(cfg.task, "data", None), data) if asked else None
    if folder is None:
        dictionary = Dictionary()
        for symbol in held[dictionary.nspecial :]:
            dictionary.add_symbol(symbol)
    else:
        dictionary, kept = read_dictionary(folder), path.parent / DICT_FILE
        read = Vocabulary.of(dictionary.symbols, dictionary_file(folder))
        if held is not None:
            read.check(Vocabulary.of(held, path), "leave out --data")
        elif kept.is_file():  # the trainings of scripts/ keep theirs beside the checkpoints
            read.check(Vocabulary.read(kept), "give the folder of the training's dictionary as --data")
    dictionary.add_symbol("<mask>")
    return dictionary, folder


def find_dictionary(checkpoint: Path, stored: str | None, given: str | os.PathLike | None) -> Path:
    """Returns the folder of the dictionary: the one given, or one of :func:`stored_folders`, or the
    checkpoint's. Raises FileNotFoundError if none has a dictionary."""
    tried = [Path(given)] if given is not None else [*stored_folders(checkpoint, stored), checkpoint.parent]
    for folder in tried:
        if dictionary_file(folder).is_file():
            return folder if folder.is_dir() else folder.parent
    above = ", in it from the folders above the checkpoint, or beside the checkpoint" if given is None else ""
    raise FileNotFoundError(
        f"there is no dict.txt in {tried[0]}{above}: give the folder with the dictionary and the BPE of the "
        "training (--data; --bpe for a BPE that lies elsewhere)"
    )


def stored_folders(checkpoint: Path, stored: str | None) -> list[Path]:
    """Returns where a folder may be that a checkpoint has stored: a relative path may start here or at each
    folder above the checkpoint."""
    first = Path((utils.split_paths(stored) if stored else [""])[0] or ".")
    if first.is_absolute() or not stored:
        return [first]
    return [first, *(folder / first for folder in checkpoint.resolve().parents)]
