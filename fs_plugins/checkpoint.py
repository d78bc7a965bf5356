"""Trained models: what a checkpoint of fairseq-train holds, or a folder that an export wrote."""

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
from omegaconf import DictConfig, OmegaConf

import fs_plugins
from fs_plugins import criterions
from fs_plugins.checkpoint_folder import LAYERS, NOT_FINE_TUNED, is_folder, read_folder
from fs_plugins.checkpoint_settings import is_pretraining, read_settings
from fs_plugins.data.text_codecs import Codec, Smiles, make_codec, smiles_form
from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary, dictionary_file
from fs_plugins.files import atomic, naming_errors
from fs_plugins.finetuning.outputs import CLASSES, REGRESSION, Outputs, PropertyInfo
from fs_plugins.models.mlm import RotaryRobertaModel

fs_plugins.register()
logger = logging.getLogger(__name__)
# form of a folder's molecules, see ``smiles_form``; "none" or "smiles", see ``make_codec``; names of classes
RECORDED = ("smiles", "bpe", "labels")


@dataclass
class Checkpoint:
    """A trained model."""

    path: Path  # the file, or the folder for transformers
    model: RotaryRobertaModel  # model in evaluation mode, on ``device``
    dictionary: Dictionary  # includes ``<mask>``
    data: Path | None  # the folder of the dictionary; None if the checkpoint or the folder holds it itself
    cfg: DictConfig  # the flags of the run, by group, as fairseq keeps them
    device: torch.device  # device of the model
    # state that tasks keep in the file, by name; empty for most
    task_state: dict = field(default_factory=dict)
    updates: int | None = None  # number of updates of its training; None if the file does not say
    # what only an exported folder records: RECORDED
    recorded: dict = field(default_factory=dict)
    is_whole: bool = True  # False for an exported fine-tuning, which has no LM head and no transitions

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
        return self.model.encoder.settings.num_states

    @property
    def alignment(self) -> str:
        """Returns how states align to targets: "dag", or "ctc" if that is what was trained."""
        criterion = criterions.find_states_criterion(self.criterion)
        return criterion.alignment if criterion else "dag"

    @property
    def has_transitions(self) -> bool:
        """Returns whether transitions between states were trained."""
        return self.k is not None and self.alignment == "dag"

    @property
    def copies(self) -> int:
        """Returns the copies of each token (Repeated MLM); 1 for other models."""
        return getattr(self.cfg.task, "repeat_times", None) or 1

    @property
    def properties(self) -> PropertyInfo | None:
        """Returns the properties of molecules that its task predicts; None for other tasks."""
        held = self.task_state.get(self.task)
        return PropertyInfo.from_dict(held) if held else None

    @property
    def is_pretrained(self) -> bool:
        """Returns whether it was trained for others to start from."""
        return is_pretraining(self.task)

    @property
    def head(self) -> str | None:
        """Returns the name of the classification head that a fine-tuning trained; None if it trained none.
        Raises ValueError if there are several and the checkpoint does not say which."""
        heads = self.model.classification_heads
        if self.is_pretrained or not heads:
            return None
        named = getattr(self.cfg.criterion, "classification_head_name", None)
        chosen = [named] if named in heads else list(heads)
        if len(chosen) != 1:
            raise ValueError(f"{self.path} has {len(heads)} heads {sorted(heads)}: give one that has one")
        return chosen[0]

    @property
    def outputs(self) -> Outputs:
        """Returns what the outputs of its head are: properties of molecules, or the score or classes of GLUE.
        Classes are named by label/dict.txt in the folder of the fine-tuning's data, or LABEL_0, LABEL_1, ...
        """
        count = self.model.classification_heads[self.head].out_proj.out_features
        if self.properties:
            return self.properties.outputs
        if getattr(self.cfg.criterion, "regression_target", False):
            return Outputs(REGRESSION, ("score",))
        names = tuple(self.recorded.get("labels") or ())
        for path in (folder / "label" / DICT_FILE for folder in data_folders(self.path, self.cfg)):
            if not names and path.is_file():
                symbols = Dictionary.load(str(path)).symbols[4:]
                names = tuple(symbol for symbol in symbols if not symbol.startswith("madeupword"))
        if len(names) != count:
            logger.warning("%s: no label/dict.txt of %d classes: LABEL_0, LABEL_1, ...", self.path, count)
            names = tuple(f"LABEL_{i}" for i in range(count))
        return Outputs(CLASSES, names)

    @property
    def longest(self) -> int | None:
        """Returns the most tokens of a text, ``<s>`` and ``</s>`` counted, that a fine-tuning read; None for
        a pre-training."""
        if self.is_pretrained:
            return None
        # positions count the copies of a Repeated MLM, tokens of a molecule do not
        most, task = self.model.max_positions(), self.cfg.task
        most = min(most, getattr(task, "max_positions", None) or most) // self.copies
        return min(most, getattr(task, "tokens_per_molecule", None) or most)

    @property
    def smiles_form(self) -> str | None:
        """Returns how the molecules of the training were written, "canonical" or "as-given"; None if
        unknown."""
        if self.properties is not None:
            return "canonical" if self.properties.canonical else "as-given"
        folders = [*data_folders(self.path, self.cfg), *([self.data] if self.data else [])]
        return self.recorded.get("smiles") or next(filter(None, map(smiles_form, folders)), None)

    def codec(self, bpe: str | Sequence[str] | None = None) -> Codec:
        """Returns the codec of its corpus: of ``bpe``, else as its folder records, else what ``make_codec``
        finds."""
        if self.properties:
            return Smiles()
        return make_codec(bpe or self.recorded.get("bpe"), self.data or self.path, self.dictionary)


def load(
    path: str | os.PathLike, data: str | os.PathLike | None = None, device: str | None = None
) -> Checkpoint:
    """Returns a trained model of ``--arch p_roberta*``, ``mlm_*``, ``p_roberta_ext_denselink*`` or
    ``exlm_*``. Leaves the state of the random numbers as it is.

    Args:
        path: a file that fairseq-train saved, read with ``weights_only``, so that it cannot run code; or a
            folder that scripts/export_huggingface.py wrote.
        data: folder with the ``dict.txt`` of the training; by default the one that the checkpoint names,
            also looked for beside the checkpoint and in the folders above it, of GLUE in its ``input0``. A
            task may keep its dictionary in its checkpoints, as ``molecule_property`` does, and an exported
            folder has it.
        device: "cpu", "cuda", "cuda:1", ...; by default a GPU where there is one.

    Raises:
        FileNotFoundError: if there is no such file, or no dictionary.
        ValueError: for another kind of model, weights that are not its own, a dictionary of another size (or,
            where the checkpoint holds its own, other symbols), or a device that does not exist.
    """
    path = Path(path)
    state, cfg = read_state(path)
    vocabulary, folder = _vocabulary(path, cfg, state.get("task_state") or {}, data)
    weights, dictionary = state["model"], vocabulary.dictionary()
    args = argparse.Namespace(**{**vars(cfg.model), "load_checkpoint_heads": True})  # fairseq adds to these
    with naming_errors(path):
        layers = {name.split(".")[3] for name in weights if name.startswith(LAYERS)}
        if len(layers) != cfg.model.encoder_layers:  # before so many are made
            raise ValueError(f"{cfg.model.encoder_layers} layers, and weights of {len(layers)}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
            model = build_model(args, task)
        missing = [name for name, _ in model.named_parameters() if name not in weights]
        optional = NOT_FINE_TUNED if state.get("head") else ()
        if lost := [name for name in missing if not name.startswith(optional)]:
            raise ValueError(f"lacks {lost[0]}: save the whole model again")
        model.load_state_dict({**model.state_dict(), **weights}, strict=True, model_cfg=args)
    with naming_errors(f"device {device}"):
        target = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model = model.to(target).eval()
    logger.info("%s: %s, dictionary of %d in %s", path, cfg.model._name, len(dictionary), folder or path)
    history = state.get("optimizer_history") or [{}]
    return Checkpoint(
        path,
        model,
        dictionary,
        folder,
        cfg,
        target,
        task_state=state.get("task_state") or {},
        updates=history[-1].get("num_updates"),
        recorded={name: state.get(name) for name in RECORDED},
        is_whole=not missing,
    )


def read_state(path: str | os.PathLike) -> tuple[dict, DictConfig]:
    """Returns what fairseq-train saved, or would save of an exported folder; and the flags of the run by
    group. No model is built. Raises ValueError if it is neither, or of another kind of model."""
    path = Path(path)
    with naming_errors(path):
        state = (
            read_folder(path) if is_folder(path) else torch.load(path, map_location="cpu", weights_only=True)
        )
        return state, read_settings(state)


def write_checkpoint(folder: str | os.PathLike, path: str | os.PathLike) -> None:
    """Writes an exported folder as a checkpoint of fairseq's, without an optimizer's state, for
    ``--finetune-from-model``. Its dictionary stays in the folder."""
    loaded = load(folder, device="cpu")
    groups = {name: OmegaConf.to_container(loaded.cfg[name]) for name in ("task", "criterion")}
    groups["task"]["data"] = str(Path(folder).absolute())
    symbols = {"symbols": list(loaded.dictionary.symbols)}
    state = {
        "cfg": {"model": loaded.cfg.model, **groups},
        "model": loaded.model.state_dict(),
        "optimizer_history": [{"lr_scheduler_state": {}, "num_updates": 0}],
        "task_state": {task: {**kept, **symbols} for task, kept in loaded.task_state.items()},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
        "last_optimizer_state": None,
    }
    with atomic(path, "wb") as file:
        torch.save(state, file)


def _vocabulary(path: Path, cfg, task_state: dict, data) -> tuple[Vocabulary, Path | None]:
    """Returns the vocabulary of ``data``, by default that of the training; and the folder that it was read
    from, None if the checkpoint or folder holds it itself."""
    held = (task_state.get(cfg.task._name) or {}).get("symbols")
    kept = path if path.is_dir() else path.parent / DICT_FILE  # as the trainings of scripts/ keep theirs
    own = None
    if held is not None:
        own = Vocabulary.of(held, path)
    elif dictionary_file(kept).is_file():
        own = Vocabulary.read(kept)
    if data is None and own is not None and (held is not None or path.is_dir()):
        return own, None
    folder = find_dictionary(path, cfg, data)
    vocabulary = Vocabulary.read(folder)
    if own is not None:
        vocabulary.check(own, "give the folder of the training's dictionary as --data, or none")
    return vocabulary, folder


def find_dictionary(checkpoint: Path, cfg: DictConfig, given: str | os.PathLike | None = None) -> Path:
    """Returns the folder of the dictionary: the one given, or one of :func:`data_folders`, or the
    checkpoint's. Raises FileNotFoundError if none has a dictionary."""
    tried = [Path(given)] if given is not None else [*data_folders(checkpoint, cfg), checkpoint.parent]
    for folder in tried:
        if dictionary_file(folder).is_file():
            return folder if folder.is_dir() else folder.parent
    above = ", in it from the folders above the checkpoint, or beside the checkpoint" if given is None else ""
    raise FileNotFoundError(
        f"there is no dict.txt in {tried[0]}{above}: give the folder with the dictionary and the BPE of the "
        "training (--data; --bpe for a BPE that lies elsewhere)"
    )


def data_folders(checkpoint: Path, cfg: DictConfig) -> list[Path]:
    """Returns where the data of a checkpoint's training may be: a relative path may start here or at each
    folder above the checkpoint."""
    if not (stored := getattr(cfg.task, "data", None)):
        return []
    if (first := Path(utils.split_paths(stored)[0])).is_absolute():
        return [first]
    return [first, *(folder / first for folder in checkpoint.resolve().parents)]
