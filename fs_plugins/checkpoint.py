"""Trained models: a checkpoint of fairseq-train, or a folder that an export wrote."""

import logging
import os
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import dataclass
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
from fs_plugins.finetuning.outputs import Outputs, PropertyInfo
from fs_plugins.models.mlm import RotaryRobertaModel

fs_plugins.register()
logger = logging.getLogger(__name__)


@dataclass
class Checkpoint:
    """A trained model."""

    path: Path  # the file, or the exported folder
    model: RotaryRobertaModel  # model in evaluation mode
    dictionary: Dictionary  # includes ``<mask>``
    cfg: DictConfig  # the flags of the run, by group, as fairseq keeps them
    data: Path | None  # the folder of the dictionary; None if the checkpoint or the folder holds it itself
    record: dict  # entries of the file, or of "fairseq" in config.json; weights and optimizer aside

    arch = property(lambda self: self.cfg.model._name)
    task = property(lambda self: self.cfg.task._name)
    criterion = property(lambda self: self.cfg.criterion._name)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @property
    def updates(self) -> int | None:
        """Returns the number of updates of its training; None if the file does not say."""
        return (self.record.get("optimizer_history") or [{}])[-1].get("num_updates")

    @property
    def k(self) -> int | None:
        """Returns the number of states of each masked token; None for a model without states."""
        return getattr(self.model.encoder, "k", None)

    @property
    def has_transitions(self) -> bool:
        """Returns whether transitions between states were trained."""
        criterion = criterions.find_states_criterion(self.criterion)  # None for that of a fine-tuning
        return self.k is not None and (criterion is None or criterion.trains_transitions)

    @property
    def copies(self) -> int:
        """Returns the copies of each token (Repeated MLM); 1 for other models."""
        return self.cfg.task.get("repeat_times") or 1

    @property
    def properties(self) -> PropertyInfo | None:
        """Returns the properties of molecules that its task predicts; None for other tasks."""
        held = (self.record.get("task_state") or {}).get(self.task)
        return PropertyInfo.from_dict(held) if held else None

    @property
    def is_pretrained(self) -> bool:
        """Returns whether it was trained for others to start from."""
        return is_pretraining(self.task)

    @property
    def pretrained(self) -> RotaryRobertaModel:
        """Returns the model with its LM head. Raises ValueError if it lost that, as an export of a
        fine-tuning does."""
        if self.record.get("head"):
            raise ValueError(f"{self.path} has no LM head: give the pre-trained model")
        return self.model

    @property
    def head(self) -> str | None:
        """Returns the name of the classification head that a fine-tuning trained; None if it trained none.
        Raises ValueError if there are several and the checkpoint does not say which."""
        heads = self.model.classification_heads
        if self.is_pretrained or not heads:
            return None
        named = self.cfg.criterion.get("classification_head_name")
        chosen = [named] if named in heads else list(heads)
        if len(chosen) != 1:
            raise ValueError(f"{self.path} has {len(heads)} heads {sorted(heads)}: give one that has one")
        return chosen[0]

    @property
    def outputs(self) -> Outputs:
        """Returns the kind and names of its head's outputs: properties of molecules, or GLUE's score or
        classes. Classes are named by label/dict.txt in the folder of the fine-tuning's data, or LABEL_0,
        LABEL_1, ...
        """
        if self.properties:
            return self.properties
        if self.cfg.criterion.get("regression_target"):
            return Outputs("regression", ("score",))
        count = self.model.classification_heads[self.head].out_proj.out_features
        names = tuple(self.record.get("labels") or ())
        for path in (folder / "label" / DICT_FILE for folder in data_folders(self.path, self.cfg)):
            if not names and path.is_file():
                symbols = Dictionary.load(str(path)).symbols[4:]
                names = tuple(symbol for symbol in symbols if not symbol.startswith("madeupword"))
        if len(names) != count:
            logger.warning("%s: no label/dict.txt of %d classes: LABEL_0, LABEL_1, ...", self.path, count)
            names = tuple(f"LABEL_{i}" for i in range(count))
        return Outputs("classes", names)

    @property
    def longest(self) -> int | None:
        """Returns the most tokens of a text, ``<s>`` and ``</s>`` counted, that a fine-tuning read; None for
        a pre-training."""
        if self.is_pretrained:
            return None
        # positions count the copies of a Repeated MLM, tokens of a molecule do not
        most, task = self.model.max_positions(), self.cfg.task
        most = min(most, task.get("max_positions") or most) // self.copies
        return min(most, task.get("tokens_per_molecule") or most)

    @property
    def smiles_form(self) -> str | None:
        """Returns how the molecules of the training were written, "canonical" or "as-given"; None if
        unknown."""
        if self.properties is not None:
            return "canonical" if self.properties.canonical else "as-given"
        folders = [*data_folders(self.path, self.cfg), *([self.data] if self.data else [])]
        return self.record.get("smiles") or next(filter(None, map(smiles_form, folders)), None)

    def codec(self, bpe: str | Sequence[str] | None = None) -> Codec:
        """Returns the codec of its corpus: of ``bpe``, else as its folder records, else what ``make_codec``
        finds."""
        if self.properties:
            return Smiles()
        return make_codec(bpe or self.record.get("bpe"), self.data or self.path, self.dictionary)


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
    record, cfg = read_state(path)
    vocabulary, folder = find_vocabulary(path, cfg, record, data)
    weights, dictionary = record.pop("model"), vocabulary.dictionary()
    record.pop("last_optimizer_state", None)  # twice as large
    args = Namespace(**vars(cfg.model), load_checkpoint_heads=True)
    with naming_errors(path):
        layers = {name.split(".")[3] for name in weights if name.startswith(LAYERS)}
        if len(layers) != args.encoder_layers:  # before so many are made
            raise ValueError(f"{args.encoder_layers} layers, and weights of {len(layers)}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            task = Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
            model = build_model(args, task)
        if record.get("head"):
            initial = model.state_dict().items()
            weights |= {name: value for name, value in initial if name.startswith(NOT_FINE_TUNED)}
        model.load_state_dict(weights, strict=True, model_cfg=args)
    with naming_errors(f"device {device}"):
        model = model.to(torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))).eval()
    logger.info("%s: %s, dictionary of %d in %s", path, cfg.model._name, len(dictionary), folder or path)
    return Checkpoint(path, model, dictionary, cfg, folder, record)


def read_state(path: str | os.PathLike) -> tuple[dict, DictConfig]:
    """Returns the state that fairseq-train saved, or an exported folder in this form; and the flags of the
    run by group. No model is built. Raises ValueError if it is neither, or of another kind of model."""
    path = Path(path)
    with naming_errors(path):
        if is_folder(path):
            state = read_folder(path)
        else:
            state = torch.load(path, map_location="cpu", weights_only=True)
        return state, read_settings(state)


def write_checkpoint(folder: str | os.PathLike, path: str | os.PathLike) -> None:
    """Writes an exported folder as a checkpoint of fairseq's, without an optimizer's state, for
    ``--finetune-from-model``. Its dictionary stays in the folder."""
    loaded = load(folder, device="cpu")
    task, criterion = (OmegaConf.to_container(loaded.cfg[name]) for name in ("task", "criterion"))
    task["data"], symbols = str(Path(folder).absolute()), {"symbols": list(loaded.dictionary.symbols)}
    state = {
        "cfg": {"model": loaded.cfg.model, "task": task, "criterion": criterion},
        "model": loaded.model.state_dict(),
        "optimizer_history": [{"lr_scheduler_state": {}, "num_updates": 0}],
        "task_state": {name: {**held, **symbols} for name, held in loaded.record["task_state"].items()},
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
        "last_optimizer_state": None,
    }
    with atomic(path, "wb") as file:
        torch.save(state, file)


def find_vocabulary(path: Path, cfg: DictConfig, record: dict, data) -> tuple[Vocabulary, Path | None]:
    """Returns the vocabulary of ``data``, by default that of the training; and the folder that it was read
    from, None if the checkpoint or folder holds it itself."""
    symbols = ((record.get("task_state") or {}).get(cfg.task._name) or {}).get("symbols")
    kept = dictionary_file(path if path.is_dir() else path.parent / DICT_FILE)  # beside, as scripts/ keep it
    own = Vocabulary.of(symbols, path) if symbols else Vocabulary.read(kept) if kept.is_file() else None
    if data is None and own is not None and (symbols or path.is_dir()):
        return own, None
    folder = find_dictionary(path, cfg) if data is None else Path(data)
    vocabulary = Vocabulary.read(folder)
    if own is not None:
        vocabulary.check(own, "give the folder of the training's dictionary as --data, or none")
    return vocabulary, folder if folder.is_dir() else folder.parent


def find_dictionary(checkpoint: Path, cfg: DictConfig) -> Path:
    """Returns the first of :func:`data_folders`, and of the checkpoint's own folder, that has a dictionary.
    Raises FileNotFoundError if none has one."""
    tried = [*data_folders(checkpoint, cfg), checkpoint.parent]
    for folder in tried:
        if dictionary_file(folder).is_file():
            return folder
    raise FileNotFoundError(
        f"there is no dict.txt in {tried[0]}, in it from the folders above the checkpoint, or beside the "
        "checkpoint: give the folder with the dictionary and the BPE of the training (--data; --bpe for a "
        "BPE that lies elsewhere)"
    )


def data_folders(checkpoint: Path, cfg: DictConfig) -> list[Path]:
    """Returns the folders where the data of a checkpoint's training may be: a relative path may start here or
    at each folder above the checkpoint."""
    if not (stored := cfg.task.get("data")):
        return []
    if (first := Path(utils.split_paths(stored)[0])).is_absolute():
        return [first]
    return [first, *(folder / first for folder in checkpoint.resolve().parents)]
