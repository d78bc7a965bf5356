"""The way back: a folder of transformers as a checkpoint that fairseq-train goes on with."""

import json
import logging
import os
from argparse import Namespace
from pathlib import Path

import torch
from fairseq.data import Dictionary
from fairseq.models import ARCH_MODEL_REGISTRY, build_model
from tokenizers import Tokenizer
from torch import Tensor

from fs_plugins.data.property_info import PropertyInfo
from fs_plugins.huggingface import settings, weights
from fs_plugins.huggingface.export import to_units
from fs_plugins.huggingface.weights import Head
from fs_plugins.models import architectures  # noqa: F401  (registers them)
from fs_plugins.models.flags import from_config

logger = logging.getLogger(__name__)

INDEX, WEIGHTS = "model.safetensors.index.json", "model.safetensors"
SEED = 1  # of what the folder does not hold


def restore(
    folder: str | os.PathLike, checkpoint: str | os.PathLike, data: str | os.PathLike | None = None
) -> Path:
    """Writes a checkpoint of a folder that was exported, or saved by transformers after that.

    What the folder does not hold (after a fine-tuning the LM head and the transitions) is initialised, with a
    warning.

    Args:
        folder: with config.json and model.safetensors, whole or in shards.
        checkpoint: the file to write; it must not be there.
        data: folder of the ``dict.txt`` of the pre-training, to be recorded in the checkpoint; training on
            does not need it.

    Returns:
        The checkpoint.

    Raises:
        FileNotFoundError: if a file of the folder, or ``dict.txt``, is not there.
        FileExistsError: if the checkpoint is.
        ValueError: for another kind of model, or another dictionary.
    """
    folder, checkpoint = Path(folder), Path(checkpoint)
    if checkpoint.exists():
        raise FileExistsError(f"{checkpoint} is there already: choose another name, or remove it")
    config, tensors = read_folder(folder)
    recorded = config.get("fairseq") or {}
    head, info = head_of(config, recorded), None
    if head is not None and recorded.get("properties"):
        info = PropertyInfo.from_dict(recorded["properties"])
        info = info if len(info.names) == len(tensors["classifier.out_proj.bias"]) else None
    if info is not None:
        to_units(tensors, info, -1)
    dictionary = dictionary_of(folder, config["vocab_size"], data)
    flags = model_flags(config, recorded)
    model = fresh_model(flags, dictionary, head, tensors)
    state = weights.to_fairseq(tensors, head)
    own = model.state_dict()
    missing = [name for name in own if name not in state and not name.endswith(weights.COMPUTED)]
    if missing:
        parts = sorted({".".join(name.split(".")[:2]) for name in missing})
        logger.warning("%s does not hold %s: they are initialised", folder, ", ".join(parts))
    model.load_state_dict({**own, **state}, strict=True)
    task, criterion = run_settings(config, recorded, head, info)
    task["data"] = "" if data is None else str(Path(data).absolute())
    task_state = {}
    if info is not None:
        task_state["molecule_property"] = {**info.to_dict(), "symbols": list(dictionary.symbols)}
    _save(checkpoint, model, flags, task, criterion, task_state)
    return checkpoint


def write_dictionary(folder: Path, data: Path) -> str:
    """Writes ``data/dict.txt``: symbols of the folder's tokenizer, with the ids that its model has.

    Returns:
        ``bpe``, as of :func:`fs_plugins.data.text_codecs.make_codec`: "smiles", "none" or the tokenizer.json.

    Raises:
        FileNotFoundError: if the folder has no config.json or tokenizer.json.
    """
    path = folder / "tokenizer.json"
    for needed in (folder / "config.json", path):
        if not needed.is_file():
            raise FileNotFoundError(
                f"there is no {needed}: give a checkpoint, such as checkpoint_best.pt, or a folder that "
                "scripts/export_huggingface.py wrote"
            )
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    tokenizer_dictionary(folder, config["vocab_size"]).save(str(data / "dict.txt"))
    content = json.loads(path.read_text(encoding="utf-8"))
    splitter = (content["pre_tokenizer"] or {}).get("type")
    known = {"Split": "smiles", "WhitespaceSplit": "none"} if content["model"]["type"] == "WordLevel" else {}
    return known.get(splitter, str(path))


def tokenizer_dictionary(folder: Path, size: int) -> Dictionary:
    """The symbols of the folder's tokenizer that a model of ``size`` ids has, without ``<mask>``; made up if
    there is no tokenizer."""
    path, dictionary = folder / "tokenizer.json", Dictionary()
    name_of = Tokenizer.from_file(str(path)).id_to_token if path.is_file() else "symbol{}".format
    for i in range(dictionary.nspecial, size - 1):
        dictionary.add_symbol(name_of(i))
    return dictionary


def read_folder(folder: Path) -> tuple[dict, dict[str, Tensor]]:
    """config.json, and the tensors under the names of a model with a head."""
    path = folder / "config.json"
    if not path.is_file():
        adapter = (folder / "adapter_config.json").is_file()
        hint = ": merge the adapter first (merge_and_unload) and save the model" if adapter else ""
        raise FileNotFoundError(f"there is no config.json in {folder}{hint}")
    config = json.loads(path.read_text(encoding="utf-8"))
    if config.get("model_type") != "exlm":
        raise ValueError(f"{folder} is a model of type {config.get('model_type')!r}, this reads 'exlm'")
    try:
        from safetensors.torch import load_file
    except ImportError as error:
        raise ValueError("an import needs safetensors: pip install -e '.[export]'") from error
    files = [WEIGHTS]
    if (folder / INDEX).is_file():
        files = sorted(set(json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"].values()))
    tensors = {}
    for name in files:
        if not (folder / name).is_file():
            raise FileNotFoundError(f"there is no {name} in {folder}: save the model with safetensors")
        tensors |= load_file(folder / name)
    if "embed_tokens.weight" in tensors:  # of the encoder alone
        tensors = {f"model.{name}": value for name, value in tensors.items()}
    return config, tensors


def head_of(config: dict, recorded: dict) -> Head | None:
    """The fine-tuned head that the folder has; its name is the recorded one, or fairseq's usual one."""
    kinds = {name: kind for kind, name in settings.HEAD_CLASSES.items()}
    name = (config.get("architectures") or ["ExLMForMaskedLM"])[0]
    if name in ("ExLMForMaskedLM", "ExLMModel"):
        return None
    if name not in kinds:
        raise ValueError(f"{name} has no counterpart in fairseq here: known are {', '.join(kinds)}")
    usual = {"sequence": "sentence_classification_head", "span": "span"}[kinds[name]]
    return Head(kinds[name], recorded.get("head") or usual)


def dictionary_of(folder: Path, size: int, data) -> Dictionary:
    """The dictionary in ``data``, else the tokenizer's.

    Raises:
        ValueError: for one of another size.
    """
    path = Path(data or folder) / "dict.txt"
    if data is not None and not path.is_file():
        raise FileNotFoundError(f"there is no {path}: give the folder of the pre-training's data")
    dictionary = tokenizer_dictionary(folder, size) if data is None else Dictionary.load(str(path))
    dictionary.add_symbol("<mask>")
    if len(dictionary) != size:
        raise ValueError(
            f"the dictionary of {data or folder} has {len(dictionary):,} entries with <mask>, the model "
            f"{size:,}: give the one that it was exported with"
        )
    return dictionary


def model_flags(config: dict, recorded: dict) -> dict:
    """The flags of fairseq's that build the model."""
    default = "p_roberta_ext_denselink_base" if config["num_states"] else "p_roberta_base"
    arch = recorded.get("arch")
    arch = arch if arch in ARCH_MODEL_REGISTRY else default
    return {"arch": arch, "_name": arch, **from_config({"tie_word_embeddings": True, **config})}


def fresh_model(flags: dict, dictionary: Dictionary, head: Head | None, tensors: dict[str, Tensor]):
    """A model of these flags, initialised by a fixed seed, with the head."""
    args = Namespace(**flags)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(SEED)
        model = build_model(args, Namespace(source_dictionary=dictionary, target_dictionary=dictionary))
        if head is not None and head.kind == "sequence":
            outputs = len(tensors["classifier.out_proj.bias"])
            model.register_classification_head(head.name, num_classes=outputs)
        elif head is not None:
            model.register_token_head(head.name, len(tensors["qa_outputs.bias"]))
    return model


def run_settings(config: dict, recorded: dict, head: Head | None, info) -> tuple[dict, dict]:
    """Task and criterion of the checkpoint: those recorded, if they go with the head that it has."""
    pretraining = ("masked_lm", "repeated_masked_lm")
    task, criterion = recorded.get("task"), recorded.get("criterion")
    if head is None and task not in pretraining:
        task = "repeated_masked_lm" if config["repeat_times"] > 1 else "masked_lm"
        states = "nat_ctc_loss_mlm" if config["alignment"] == "ctc" else "nat_dag_loss_mlm"
        criterion = states if config["num_states"] else "masked_lm"
    elif head is not None and head.kind == "span":
        task, criterion = "squad2", "squad2"
    elif info is not None:
        task, criterion = "molecule_property", "molecule_property"
    elif head is not None and task in (*pretraining, "squad2", "molecule_property", None):
        repeated = config["repeat_times"] > 1
        task = "repeated_sentence_prediction" if repeated else "sentence_prediction"
        criterion = "sentence_prediction"
    task, criterion = {"_name": task}, {"_name": criterion}
    if config["repeat_times"] > 1:
        task["repeat_times"] = config["repeat_times"]
    if head is not None and head.kind == "sequence":
        criterion["classification_head_name"] = head.name
    if head is not None and info is None and config.get("problem_type") == "regression":
        criterion["regression_target"] = True
    return task, criterion


def _save(path: Path, model, flags: dict, task: dict, criterion: dict, task_state: dict) -> None:
    """In the format of fairseq's checkpoints, without an optimizer's state; written atomically."""
    history = {
        "criterion_name": criterion["_name"],
        "optimizer_name": "",
        "lr_scheduler_state": {},
        "num_updates": 0,
    }
    state = {
        "args": None,
        "cfg": {"model": Namespace(**flags), "task": task, "criterion": criterion},
        "model": model.state_dict(),
        "optimizer_history": [history],
        "task_state": task_state,
        "extra_state": {"train_iterator": {"epoch": 1, "iterations_in_epoch": 0, "version": 2}},
        "last_optimizer_state": None,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    try:
        torch.save(state, partial)
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
