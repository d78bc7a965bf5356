"""The way back: a folder for transformers as a checkpoint, in memory or as a file of fairseq's."""

import json
import logging
import os
from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY
from omegaconf import DictConfig, OmegaConf
from safetensors import SafetensorError
from safetensors.torch import load_file

from fs_plugins import checkpoint as checkpoints
from fs_plugins import files as own_files
from fs_plugins.checkpoint import Checkpoint, choose_device, load_checkpoint
from fs_plugins.checkpoint_settings import read_settings
from fs_plugins.data.property_info import PropertyInfo
from fs_plugins.data.vocabulary import FILE, MASK, TOKENIZER, Vocabulary, dictionary_file, read_dictionary
from fs_plugins.huggingface import settings, weights
from fs_plugins.huggingface.tokenizer_files import SPECIAL, written_as
from fs_plugins.huggingface.weights import Head
from fs_plugins.models import architectures  # noqa: F401  (registers them)
from fs_plugins.models.exlm import ExLMModel
from fs_plugins.models.flags import SIZE, from_config

logger = logging.getLogger(__name__)

INDEX, WEIGHTS = "model.safetensors.index.json", "model.safetensors"
HEADS = {"sequence": "classifier.out_proj.bias", "span": "qa_outputs.bias"}


def open_checkpoint(
    path: str | os.PathLike, data: str | os.PathLike | None = None, device: str | None = None
) -> Checkpoint:
    """A trained model: a file that fairseq-train saved, or a folder for transformers.

    Args and errors are those of :func:`load_checkpoint`, and of :func:`restore`.
    """
    return (restore if is_folder(path) else load_checkpoint)(path, data, device)


def is_folder(path: str | os.PathLike) -> bool:
    """Whether it is a folder for transformers."""
    return any((Path(path) / name).is_file() for name in ("config.json", "adapter_config.json"))


def open_state(path: str | os.PathLike) -> tuple[dict, DictConfig]:
    """As :func:`fs_plugins.checkpoint.read_state`, also of a folder: what is trained in it, under fairseq's
    names, and the flags."""
    if not is_folder(path):
        return checkpoints.read_state(Path(path))
    *_, cfg, state = read_folder(Path(path))
    return {"model": state}, cfg


def restore(
    folder: str | os.PathLike, data: str | os.PathLike | None = None, device: str | None = None
) -> Checkpoint:
    """The model of a folder that was exported, or saved by transformers after that.

    What the folder does not hold (after a fine-tuning the LM head and the transitions) is initialised.

    Args:
        folder: with config.json and model.safetensors, whole or in shards.
        data: folder of the ``dict.txt`` of the pre-training, and of data to measure on; by default the
            dictionary is that of the folder's tokenizer.
        device: as of :func:`load_checkpoint`.

    Raises:
        FileNotFoundError: if a file of the folder, or ``dict.txt``, is not there.
        ValueError: for another kind of model, or another dictionary.
    """
    folder, target = Path(folder), choose_device(device)
    config, tensors, head, info, cfg, state = read_folder(folder)
    dictionary, written = dictionary_of(folder, config, data)
    try:
        model = checkpoints.untrained_model(cfg, dictionary)
    except ValueError as error:
        raise ValueError(f"{folder}/config.json is refused: {error}") from error
    if head is not None and head.kind == "sequence":
        model.register_classification_head(head.name, num_classes=len(tensors[HEADS[head.kind]]))
    elif head is not None:
        model.register_token_head(head.name, len(tensors[HEADS[head.kind]]))
    own = model.state_dict()
    missing = [name for name in own if name not in state and not name.endswith(weights.COMPUTED)]
    if lost := weights.of_parts_that_are_there(missing, state):
        raise ValueError(f"{folder} lacks {lost[0]}: save the whole model again")
    try:
        model.load_state_dict({**own, **state}, strict=True)
    except RuntimeError as error:
        raise ValueError(f"{folder}: its weights do not fit its config.json: {error!s:.400}") from error
    task_state = {}
    if info is not None:
        task_state["molecule_property"] = {**info.to_dict(), "symbols": list(dictionary.symbols)}
    lacking = tuple(sorted({".".join(name.split(".")[:2]) for name in missing}))
    labels = names_of_outputs(folder, config, len(tensors[HEADS[head.kind]])) if head else None
    about = {"written": written, "missing": lacking, "labels": labels}
    data = None if data is None else Path(data)
    return Checkpoint(folder, model.to(target).eval(), dictionary, data, cfg, target, task_state, **about)


def save(checkpoint: Checkpoint, path: str | os.PathLike) -> Path:
    """Writes what :func:`restore` gave in the format of fairseq's checkpoints, without an optimizer's state;
    beside it the dictionary and, of a BPE, the tokenizer.

    Raises:
        FileExistsError: if the file exists.
        ValueError: if there is another dictionary beside it.
    """
    path, cfg = Path(path), checkpoint.cfg
    own_files.check_absent(path)
    if checkpoint.missing:
        missing = ", ".join(checkpoint.missing)
        logger.warning("%s does not hold %s: they are initialised", checkpoint.path, missing)
    vocabulary = Vocabulary.of(checkpoint.dictionary.symbols, checkpoint.path)
    beside = path.parent / FILE
    if beside.is_file():
        vocabulary.check(Vocabulary.read(beside), f"choose another folder for {path.name}")
    history = {"criterion_name": checkpoint.criterion, "optimizer_name": "", "lr_scheduler_state": {}}
    history["num_updates"] = 0
    data = str(checkpoint.data.absolute()) if checkpoint.data else ""
    task = {**OmegaConf.to_container(cfg.task), "data": data}
    state = {
        "args": None,
        "cfg": {"model": cfg.model, "task": task, "criterion": OmegaConf.to_container(cfg.criterion)},
        "model": checkpoint.model.state_dict(),
        "optimizer_history": [history],
        "task_state": checkpoint.task_state,
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
        "last_optimizer_state": None,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    if not beside.is_file():
        vocabulary.write(beside)
    if checkpoint.written and Path(checkpoint.written).is_file():
        own_files.copy(checkpoint.written, path.parent / TOKENIZER)
    with own_files.atomic(path, "wb") as file:
        torch.save(state, file)
    return path


def read_folder(folder: Path) -> tuple:
    """config.json; the tensors under the names of a model with a head; the fine-tuned head, and the
    properties that it predicts; the flags of the run, and the weights under fairseq's names.

    Raises:
        FileNotFoundError: if a file is not there.
        ValueError: for another kind of model, or values that it cannot have.
    """
    path = folder / "config.json"
    if not path.is_file():
        adapter = (folder / "adapter_config.json").is_file()
        hint = ": merge the adapter first (merge_and_unload) and save the model" if adapter else ""
        hint = ": it is a file; a checkpoint of fairseq-train needs no import" if folder.is_file() else hint
        raise FileNotFoundError(f"there is no config.json in {folder}{hint}")
    config = read_config(path)
    name, files, tensors = INDEX, [WEIGHTS], {}
    try:
        if (folder / INDEX).is_file() and not (folder / WEIGHTS).is_file():  # as transformers chooses
            index = json.loads((folder / INDEX).read_text(encoding="utf-8"))
            files = sorted({os.fspath(name) for name in index["weight_map"].values()})
        for name in files:
            if not (folder / name).is_file():
                raise FileNotFoundError(f"there is no {name} in {folder}: save the model with safetensors")
            tensors |= load_file(folder / name)
    except (SafetensorError, LookupError, TypeError, AttributeError, ValueError) as error:
        way_out = "download or save it again (a file of a few lines is a pointer: git lfs pull)"
        raise ValueError(f"{folder}/{name} is damaged ({error}): {way_out}") from error
    if "embed_tokens.weight" in tensors:  # of the encoder alone
        tensors = {f"model.{name}": value for name, value in tensors.items()}
    head, info = head_of(config), (config.get("fairseq") or {}).get("properties")
    info = PropertyInfo.from_dict(info) if head is not None and info else None
    if head is not None and HEADS[head.kind] not in tensors:
        raise ValueError(f"{path} is of {config['architectures'][0]}, but there is no {HEADS[head.kind]}")
    if info is not None and len(info.names) == len(tensors[HEADS[head.kind]]):
        weights.to_units(tensors, info, -1)
    else:
        info = None
    try:
        cfg, state = run_settings(config, head, info), weights.to_fairseq(tensors, head)
    except ValueError as error:
        raise ValueError(f"{folder} is refused: {error}") from error
    return config, tensors, head, info, cfg, state


def read_config(path: Path) -> dict:
    """A config.json, of whose fields those that are no flags are checked. Raises ValueError if it is not that
    of a model of ours, naming the field."""
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON ({error})") from error
    if not isinstance(config, dict) or config.get("model_type") != "exlm":
        kind = config.get("model_type") if isinstance(config, dict) else config
        raise ValueError(f"{path.parent} is a model of type {kind!r:.200}, this reads 'exlm'")
    recorded = config.get("fairseq") or {}
    classes = config.get("architectures") or []
    for name, fits in {
        "vocab_size": SIZE.fits(config.get("vocab_size")),
        "num_states": config.get("num_states") is None or SIZE.fits(config["num_states"]),
        "repeat_times": SIZE.fits(config.get("repeat_times")),
        "alignment": config.get("alignment") in ("dag", "ctc"),
        "architectures": isinstance(classes, list) and all(isinstance(one, str) for one in classes),
        "id2label": isinstance(config.get("id2label") or {}, dict),
        "fairseq": isinstance(recorded, dict) and isinstance(recorded.get("samples", {}), dict),
    }.items():
        if not fits:
            raise ValueError(f"{name} of {path} is {config.get(name.split('.')[0])!r:.200}")
    return {"num_states": None, **config}


def names_of_outputs(folder: Path, config: dict, outputs: int) -> tuple[str, ...] | None:
    """Those of ``id2label``, by its keys; None without it. Raises ValueError unless each output has a name of
    its own."""
    given = {str(key): str(name) for key, name in (config.get("id2label") or {}).items()}
    if given and (given.keys() != {*map(str, range(outputs))} or len({*given.values()}) < outputs):
        raise ValueError(
            f"id2label of {folder}/config.json is {given!s:.200}, and the model has {outputs} outputs: name "
            f"each of 0 to {outputs - 1}, and none like another"
        )
    return tuple(given[str(i)] for i in range(outputs)) if given else None


def head_of(config: dict) -> Head | None:
    """The fine-tuned head that the folder has; its name is the recorded one, or fairseq's usual one."""
    name = (config.get("architectures") or ["ExLMForMaskedLM"])[0]
    if name in ("ExLMForMaskedLM", "ExLMModel"):
        return None
    kinds = {name: kind for kind, name in settings.HEAD_CLASSES.items()}
    if name not in kinds:
        raise ValueError(f"{name} has no counterpart in fairseq here: known are {', '.join(kinds)}")
    usual = {"sequence": "sentence_classification_head", "span": "span"}[kinds[name]]
    return Head(kinds[name], (config.get("fairseq") or {}).get("head") or usual)


def dictionary_of(folder: Path, config: dict, data) -> tuple[Dictionary, str | None]:
    """The dictionary in ``data``, else the tokenizer's; and how text is written in its symbols, as of
    ``make_codec``, if the folder says so.

    Raises:
        FileNotFoundError: if there is neither.
        ValueError: for another dictionary than the model's.
    """
    tokenizer, size = folder / TOKENIZER, config["vocab_size"]
    if data is None and not tokenizer.is_file():
        raise FileNotFoundError(
            f"there is no {TOKENIZER} in {folder}: save the tokenizer there too, or give the folder with the "
            f"{FILE} of the pre-training (--data)"
        )
    source, written = Path(folder if data is None else data), None
    dictionary = read_dictionary(source)
    dictionary.add_symbol(MASK)
    vocabulary = Vocabulary.of(dictionary.symbols, dictionary_file(source))
    if tokenizer.is_file():
        own = Vocabulary.read(folder)
        if vocabulary.symbols == own.symbols:
            written = written_as(tokenizer)
            if written in ("smiles", "none") and not own.has_recorded():
                logger.warning(
                    "%s has not the symbols, in the order, that the model of %s was trained with",
                    tokenizer,
                    folder,
                )
        else:
            vocabulary.check(own, f"give data prepared with --dictionary {folder}, or none (--data)")
    if len(dictionary) != size:
        raise ValueError(
            f"{vocabulary.source} has {len(dictionary):,} entries with {MASK}, the model of {folder} has "
            f"{size:,}: give the one that it was trained with, or mend vocab_size in its config.json"
        )
    for name, token in SPECIAL.items():
        if config.get(f"{name}_token_id", (index := dictionary.index(token))) != index:
            wrong = f"{name}_token_id of {folder}/config.json is {config[f'{name}_token_id']!r:.200}"
            raise ValueError(f"{wrong}, and {token} of {vocabulary.source} is {index}: mend config.json")
    return dictionary, written


def run_settings(config: dict, head: Head | None, info: PropertyInfo | None) -> DictConfig:
    """The flags of the run by group: those of the model, and of the task and the criterion that train what
    the folder has."""
    repeated = config["repeat_times"] > 1
    if head is None:
        task = "repeated_masked_lm" if repeated else "masked_lm"
        criterion = f"nat_{config['alignment']}_loss_mlm" if config["num_states"] else "masked_lm"
    elif head.kind == "span":
        task = criterion = "squad2"
    elif info is not None:
        task = criterion = "molecule_property"
    else:
        task, criterion = "repeated_sentence_prediction" if repeated else "glue", "sentence_prediction"
    recorded = config.get("fairseq") or {}
    task, criterion = {"_name": task, **recorded.get("samples", {})}, {"_name": criterion}
    if repeated:
        task["repeat_times"] = config["repeat_times"]
    if head is not None and head.kind == "sequence":
        criterion["classification_head_name"] = task["classification_head_name"] = head.name
    elif head is not None:
        task["head_name"] = head.name
    if criterion["_name"] == "sentence_prediction":
        criterion["regression_target"] = config.get("problem_type") == "regression"
        usual = {"init_token": 0, "separator_token": 2, "shorten_method": "truncate", **criterion}
        usual |= {"max_positions": config.get("max_position_embeddings")}
        # transformers writes no labels that are its own two
        task = {**usual, **task, "num_classes": len(config.get("id2label") or {}) or 2}
    arch = recorded.get("arch")
    model = ARCH_MODEL_REGISTRY.get(arch) if isinstance(arch, str) else None
    if model is None or issubclass(model, ExLMModel) != bool(config["num_states"]):
        arch = "p_roberta_ext_denselink_base" if config["num_states"] else "p_roberta_base"
    flags = from_config({"tie_word_embeddings": True, **config})
    model = Namespace(arch=arch, _name=arch, **flags)
    return read_settings({"cfg": {"model": model, "task": task, "criterion": criterion}})
