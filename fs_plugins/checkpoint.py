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
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig

import fs_plugins
from fs_plugins import criterions
from fs_plugins.checkpoint_settings import is_pretraining, read_settings
from fs_plugins.data.text_codecs import Codec, Smiles, make_codec, smiles_form
from fs_plugins.data.vocabulary import DICT_FILE, Vocabulary, dictionary_file
from fs_plugins.files import naming_errors
from fs_plugins.finetuning.outputs import CLASSES, REGRESSION, Outputs, PropertyInfo
from fs_plugins.finetuning.scored import ScoredTask
from fs_plugins.models.mlm import RotaryRobertaModel

fs_plugins.register()
logger = logging.getLogger(__name__)
LAYERS = "encoder.sentence_encoder.layers."  # beginning of the names of layers' weights


@dataclass(frozen=True)
class Head:
    """A fine-tuned head."""

    architecture: str  # its class in transformers
    name: str  # name in the checkpoint

    @property
    def of_sequences(self) -> bool:
        """Returns whether it predicts something of whole sequences."""
        return self.architecture == ScoredTask.architecture


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
        return self.model.encoder.settings.num_states

    @property
    def alignment(self) -> str:
        """Returns how states align to targets, "dag" or "ctc". A fine-tuning does not say what was
        pre-trained: there transitions whose biases are still zero, as initialised, tell of CTC."""
        if criterion := criterions.find_states_criterion(self.criterion):
            return criterion.alignment
        return "dag" if self.k is None or self.model.encoder.query_linear.bias.any() else "ctc"

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
        """Returns the properties that its task predicts, if it keeps them in checkpoints; else None."""
        held = self.task_state.get(self.task)
        return PropertyInfo.from_dict(held) if held else None

    @property
    def fine_tuning(self) -> type[ScoredTask] | None:
        """Returns the class of the task that trained a head (of a task of fairseq's own, the base class of
        ours); None for a pre-training."""
        task = TASK_REGISTRY[self.task]
        return None if is_pretraining(self.task) else task if issubclass(task, ScoredTask) else ScoredTask

    @property
    def head(self) -> Head | None:
        """Returns the head that a fine-tuning trained; None for a pre-training. Raises ValueError if there is
        none, or several of which the checkpoint does not say which."""
        if self.fine_tuning is None:
            return None
        model, architecture = self.model, self.fine_tuning.architecture
        heads = model.token_heads if architecture != ScoredTask.architecture else model.classification_heads
        named = getattr(self.cfg.criterion, "classification_head_name", None)
        chosen = [named] if named in heads else list(heads)
        if len(chosen) != 1:
            raise ValueError(
                f"{self.path}, fine-tuned with --task {self.task}, has {len(heads) or 'no'} heads "
                f"{sorted(heads)}: export a checkpoint that has one"
            )
        return Head(architecture, chosen[0])

    def outputs_of(self, head: Head) -> Outputs:
        """Returns what the outputs of a head for sequences are: properties of molecules, what the model's
        folder says, or the score or classes of GLUE. Classes are named by label/dict.txt in the folder of the
        fine-tuning's data, or LABEL_0, LABEL_1, ..."""
        count = self.model.classification_heads[head.name].out_proj.out_features
        if outputs := self.properties.outputs if self.properties else self.outputs:
            if len(outputs.names) != count:
                raise ValueError(f"{self.path} has {count} outputs, and the names {outputs.names!s:.200}")
            return outputs
        if getattr(self.cfg.criterion, "regression_target", False):
            return Outputs(REGRESSION, ("score",))
        for path in (folder / "label" / DICT_FILE for folder in data_folders(self.path, self.cfg)):
            if path.is_file():
                symbols = Dictionary.load(str(path)).symbols[4:]
                names = tuple(symbol for symbol in symbols if not symbol.startswith("madeupword"))
                if len(names) == count:
                    return Outputs(CLASSES, names)
        logger.warning("%s: no label/dict.txt of %d classes: they are named LABEL_0, ...", self.path, count)
        return Outputs(CLASSES, tuple(f"LABEL_{i}" for i in range(count)))

    @property
    def longest(self) -> int | None:
        """Returns the most tokens of a text, ``<s>`` and ``</s>`` counted, that a fine-tuning read; None for
        a pre-training."""
        if self.fine_tuning is None:
            return None
        flag, most, copies = self.fine_tuning.length, self.model.max_positions(), self.copies
        limit = getattr(self.cfg.task, flag, None) or most
        # positions count the copies of a Repeated MLM, tokens of a molecule do not
        return min(most // copies, limit // copies if flag == "max_positions" else limit)

    @property
    def smiles_form(self) -> str | None:
        """Returns how the molecules of the training were written, "canonical" or "as-given"; None if
        unknown."""
        if self.properties is not None:
            return "canonical" if self.properties.canonical else "as-given"
        folders = [*data_folders(self.path, self.cfg), *([self.data] if self.data else [])]
        return self.smiles or next(filter(None, map(smiles_form, folders)), None)

    def codec(self, bpe: str | Sequence[str] | None = None) -> Codec:
        """Returns the codec of its corpus: of ``bpe``, else as its folder says, else what ``make_codec``
        finds."""
        return Smiles() if self.properties else make_codec(bpe or self.written, self.data, self.dictionary)


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
    return build(Path(path), *read_state(Path(path)), data, device)


def read_state(path: Path) -> tuple[dict, DictConfig]:
    """Returns what fairseq-train saved, and the flags of the run by group; no model is built. Raises
    ValueError if it is not a checkpoint, or of another kind of model."""
    with naming_errors(path):
        state = torch.load(path, map_location="cpu", weights_only=True)
        return state, read_settings(state)


def build(
    path: Path,
    state: dict,
    cfg: DictConfig,
    data: str | os.PathLike | None,
    device: str | None,
    optional: Sequence[tuple[str, ...]] = (),
    smiles: str | None = None,
    written: str | None = None,
) -> Checkpoint:
    """Builds the model of a checkpoint, or of a folder for transformers that was read as one. Leaves the
    state of the random numbers as it is.

    Args:
        path: the file or folder.
        state, cfg: as of :func:`read_state`.
        data, device: as of :func:`load_checkpoint`.
        optional: parts of the model, by the beginnings of their weights' names, that the state may lack: each
            is then initialised as a whole.
        smiles, written: as in :class:`Checkpoint`.

    Raises:
        ValueError: as :func:`load_checkpoint`, and for incomplete weights.
    """
    vocabulary, folder, is_own = _vocabulary(path, cfg, state.get("task_state") or {}, data)
    weights, dictionary = state["model"], vocabulary.dictionary()
    cfg.model.load_checkpoint_heads = True
    with naming_errors(path):
        layers = {name.split(".")[3] for name in weights if name.startswith(LAYERS)}
        if len(layers) != cfg.model.encoder_layers:  # before so many are made
            raise ValueError(
                f"{cfg.model.encoder_layers} layers, weights of {len(layers)}: mend its settings, or save "
                "the model itself (not torch.compile's or DataParallel's, and with adapters merged)"
            )
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            task = argparse.Namespace(source_dictionary=dictionary, target_dictionary=dictionary)
            model = build_model(cfg.model, task)
        missing = [name for name, _ in model.named_parameters() if name not in weights]
        absent = tuple(
            start for part in optional if not any(name.startswith(part) for name in weights) for start in part
        )
        if lost := [name for name in missing if not name.startswith(absent)]:
            raise ValueError(f"lacks {lost[0]}: save the whole model again")
        model.load_state_dict({**model.state_dict(), **weights}, strict=True, model_cfg=cfg.model)
        if outputs := state.get("outputs"):
            outputs = Outputs(outputs["problem"], tuple(map(str, outputs["names"])))
    with naming_errors(f"device {device}"):
        target = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        model = model.to(target).eval()
    logger.info("%s: %s, dictionary of %d in %s", path, cfg.model._name, len(dictionary), folder or path)
    return Checkpoint(
        path,
        model,
        dictionary,
        folder,
        cfg,
        target,
        task_state=state.get("task_state") or {},
        updates=(state.get("optimizer_history") or [{}])[-1].get("num_updates"),
        score=(state.get("extra_state") or {}).get("val_loss"),
        outputs=outputs,
        smiles=smiles,
        written=written if is_own else None,
        missing=tuple(sorted({".".join(name.split(".")[:2]) for name in missing})),
    )


def _vocabulary(path: Path, cfg, task_state: dict, data) -> tuple[Vocabulary, Path | None, bool]:
    """Returns the vocabulary of ``data``, by default that of the training; the folder that it was read from,
    None if the checkpoint or folder holds it itself; and whether it has the symbols that these hold."""
    held = (task_state.get(cfg.task._name) or {}).get("symbols")
    holds_its_own = held is not None or path.is_dir()
    kept = path if path.is_dir() else path.parent / DICT_FILE  # as the trainings of scripts/ keep theirs
    if holds_its_own and data is None:
        return Vocabulary.of(held, path) if held else Vocabulary.read(kept), None, True
    folder = find_dictionary(path, cfg, data)
    vocabulary, own = Vocabulary.read(folder), Vocabulary.of(held, path) if held else None
    if own is None and dictionary_file(kept).is_file():
        own = Vocabulary.read(kept)
    if own is not None:
        vocabulary.check(own, "give the folder of the training's dictionary as --data, or none")
    return vocabulary, folder, own is not None and own.symbols == vocabulary.symbols


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
    stored = getattr(cfg.task, "data", None)
    first = Path((utils.split_paths(stored) if stored else [""])[0] or ".")
    if first.is_absolute() or not stored:
        return [first]
    return [first, *(folder / first for folder in checkpoint.resolve().parents)]
