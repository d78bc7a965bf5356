"""The way back: a folder for transformers as a checkpoint, in memory or as a file of fairseq's."""

import json
import logging
import os
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file

from fs_plugins import files as own_files
from fs_plugins.checkpoint import Checkpoint, build, load_checkpoint, read_state
from fs_plugins.data.vocabulary import DICT_FILE, TOKENIZER, Vocabulary, dictionary_file
from fs_plugins.exlm.settings import SIZE, Settings
from fs_plugins.files import naming_errors
from fs_plugins.finetuning.outputs import Outputs
from fs_plugins.huggingface import weights
from fs_plugins.huggingface.exported_config import head_of, properties_of, run_flags
from fs_plugins.huggingface.tokenizer_files import written_as

logger = logging.getLogger(__name__)

WEIGHTS = "model.safetensors"
EPSILON = Settings.layer_norm_eps


def open_checkpoint(
    path: str | os.PathLike, data: str | os.PathLike | None = None, device: str | None = None
) -> Checkpoint:
    """Returns a trained model: a file that fairseq-train saved, or a folder for transformers; see
    :func:`load_checkpoint` and :func:`restore`."""
    return (restore if is_folder(path) else load_checkpoint)(path, data, device)


def is_folder(path: str | os.PathLike) -> bool:
    """Returns whether it is a folder for transformers."""
    return any((Path(path) / name).is_file() for name in ("config.json", "adapter_config.json"))


def open_state(path: str | os.PathLike) -> tuple[dict, DictConfig]:
    """Returns what :func:`fs_plugins.checkpoint.read_state` does, also of a folder: what is trained in it,
    under fairseq's names, and the flags."""
    return (read_folder if is_folder(path) else read_state)(Path(path))


def restore(
    folder: str | os.PathLike, data: str | os.PathLike | None = None, device: str | None = None
) -> Checkpoint:
    """Returns the model of a folder that was exported, or saved by transformers after that.

    What the folder does not hold (after a fine-tuning the LM head and the transitions) is initialised.

    Args:
        folder: with config.json and model.safetensors.
        data: folder of the ``dict.txt`` of the pre-training, and of data to measure on; by default the
            dictionary is that of the folder's tokenizer.
        device: as of :func:`load_checkpoint`.

    Raises:
        ValueError: for another kind of model, incomplete weights, or another dictionary.
    """
    folder = Path(folder)
    state, cfg = read_folder(folder)
    about = {"smiles": state["smiles"], "written": written_as(folder)}
    return build(folder, state, cfg, data, device, (weights.LM_HEAD, weights.TRANSITIONS), **about)


def save(checkpoint: Checkpoint, path: str | os.PathLike) -> Path:
    """Writes what :func:`restore` gave in the format of fairseq's checkpoints, without an optimizer's state,
    and beside it the dictionary and, of a BPE, the tokenizer; returns the path. Raises FileExistsError if the
    file exists, and ValueError if there is another dictionary or tokenizer beside it."""
    path, cfg = Path(path), checkpoint.cfg
    own_files.check_absent(path)
    bpe, tokenizer = Path(checkpoint.written or ""), path.parent / TOKENIZER
    if tokenizer.is_file() and _merges(tokenizer) != _merges(bpe):
        raise ValueError(f"{tokenizer} is another model's: choose another folder for {path.name}")
    if checkpoint.missing:
        missing = ", ".join(checkpoint.missing)
        logger.warning("%s does not hold %s: they are initialised", checkpoint.path, missing)
    vocabulary = Vocabulary.of(checkpoint.dictionary.symbols, checkpoint.path)
    beside = path.parent / DICT_FILE
    if dictionary_file(path.parent).is_file():
        vocabulary.check(Vocabulary.read(path.parent), f"choose another folder for {path.name}")
    symbols = {"symbols": list(vocabulary.symbols)}
    data = str(checkpoint.data.absolute()) if checkpoint.data else ""
    task = {**OmegaConf.to_container(cfg.task), "data": data}
    state = {
        "cfg": {"model": cfg.model, "task": task, "criterion": OmegaConf.to_container(cfg.criterion)},
        "model": checkpoint.model.state_dict(),
        "optimizer_history": [{"lr_scheduler_state": {}, "num_updates": 0}],
        "task_state": {task: {**kept, **symbols} for task, kept in checkpoint.task_state.items()},
        "outputs": checkpoint.outputs and vars(checkpoint.outputs),
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
        "last_optimizer_state": None,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    if not beside.is_file():
        vocabulary.write(beside)
    if bpe.is_file() and not tokenizer.is_file():
        own_files.copy(bpe, tokenizer)
    with own_files.atomic(path, "wb") as file:
        torch.save(state, file)
    return path


def _merges(tokenizer: Path) -> list | None:
    """Returns the merges of a BPE's tokenizer.json; None of another, and without a file."""
    return json.loads(tokenizer.read_text("utf-8"))["model"].get("merges") if tokenizer.is_file() else None


def read_folder(folder: Path) -> tuple[dict, DictConfig]:
    """Returns what is trained in the folder, as fairseq-train would save it (with ``smiles``, as in a
    Checkpoint), and the flags of a run that would train it, by group. Raises ValueError for another kind of
    model."""
    path = folder / "config.json"
    with naming_errors(path):
        config = {"num_states": None, "fairseq": {}, **json.loads(path.read_text(encoding="utf-8-sig"))}
        if config.get("model_type") != "exlm":
            raise ValueError(f"a model of type {config.get('model_type')!r:.200}, this reads 'exlm'")
        if (eps := config.get("layer_norm_eps", EPSILON)) != EPSILON:
            raise ValueError(f"layer_norm_eps is {eps!r:.200}, here {EPSILON}: use it in transformers alone")
        SIZE.checked(config["repeat_times"], "repeat_times")
        head = head_of(config)
    with naming_errors(folder / WEIGHTS):
        tensors = load_file(folder / WEIGHTS)
    with naming_errors(path):
        entries = len(tensors.get(f"{weights.ENCODER}embed_tokens.weight", ()))
        if entries and config["vocab_size"] != entries:
            wrong = f"vocab_size is {config['vocab_size']!r:.200}"
            raise ValueError(f"{wrong}, and {entries} tokens have weights: mend it")
        outputs = info = None
        if head is not None and head.of_sequences:
            outputs = Outputs.of_config(config, len(tensors["classifier.out_proj.bias"]))
            info = properties_of(config, outputs, written_as(folder) == "smiles")
        if info is not None and info.regression:
            weights.to_units(tensors, info, -1)
        cfg = run_flags(config, head, outputs, info is not None)
    with naming_errors(folder):
        state = {"model": weights.to_fairseq(tensors, head), "smiles": config["fairseq"].get("smiles")}
    state["outputs"] = vars(outputs) if outputs and not info else None
    state["task_state"] = {cfg.task._name: info.to_dict()} if info else {}
    return state, cfg
