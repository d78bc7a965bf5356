"""The way back: a folder for transformers as a checkpoint, in memory or as a file of fairseq's."""

import json
import logging
import os
from argparse import Namespace
from dataclasses import asdict
from pathlib import Path

import torch
from fairseq.criterions import CRITERION_REGISTRY
from fairseq.data import Dictionary
from fairseq.tasks import TASK_REGISTRY
from omegaconf import DictConfig, OmegaConf
from safetensors.torch import load_file

from fs_plugins import files as own_files
from fs_plugins.checkpoint import Checkpoint, load_checkpoint, read_state, trained, untrained_model
from fs_plugins.checkpoint_settings import read_settings
from fs_plugins.criterions import find_states_criterion
from fs_plugins.data.vocabulary import (
    DICT_FILE,
    MASK,
    TOKENIZER,
    Vocabulary,
    dictionary_file,
    read_dictionary,
)
from fs_plugins.exlm.settings import SIZE, Settings
from fs_plugins.files import naming_errors
from fs_plugins.finetuning.outputs import KINDS, Outputs, PropertyInfo
from fs_plugins.finetuning.scored import ScoredTask
from fs_plugins.huggingface import exported_config, weights
from fs_plugins.huggingface.tokenizer_files import written_as
from fs_plugins.huggingface.weights import Head
from fs_plugins.models.architectures import ARCHITECTURES, EXLM, MLM
from fs_plugins.models.flags import from_settings

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
    if not is_folder(path):
        return read_state(Path(path))
    _, state, cfg = read_folder(Path(path))
    return state, cfg


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
    config, state, cfg = read_folder(folder)
    dictionary, written = dictionary_of(folder, data)
    for kept in state["task_state"].values():
        kept["symbols"] = list(dictionary.symbols)
    with naming_errors(folder / "config.json"):
        model, head = untrained_model(cfg, dictionary, state["model"]), head_of(config)
        if head is not None and head.of_sequences:
            model.register_classification_head(head.name, num_classes=len(state["outputs"]["names"]))
        elif head is not None:
            model.register_token_head(head.name, 2)
    initial, held = model.state_dict(), state["model"]
    missing = [name for name in initial if name not in held and not name.endswith(weights.COMPUTED)]
    if lost := weights.incomplete_parts(missing, held):
        raise ValueError(f"{folder} lacks {lost[0]}: save the whole model again")
    state["model"] = {**initial, **held}
    about = {"data": None if data is None else Path(data), "written": written}
    about["smiles"] = config["fairseq"].get("smiles")
    about["missing"] = tuple(sorted({".".join(name.split(".")[:2]) for name in missing}))
    return trained(folder, model, state, cfg, dictionary, device, **about)


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
        "outputs": checkpoint.outputs and asdict(checkpoint.outputs),
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


def read_folder(folder: Path) -> tuple[dict, dict, DictConfig]:
    """Returns config.json; what is trained in the folder, as fairseq-train would save it; and the flags of a
    run that would train it, by group. Raises ValueError for another kind of model."""
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
        outputs = info = None
        if head is not None and head.of_sequences:
            outputs = Outputs.of_config(config, len(tensors["classifier.out_proj.bias"]))
            info = properties_of(folder, outputs, config["fairseq"])
        if info is not None and info.regression:
            weights.to_units(tensors, info, -1)
            outputs = info.outputs
        cfg = run_flags(config, head, outputs, info)
    with naming_errors(folder):
        state = {"model": weights.to_fairseq(tensors, head), "outputs": outputs and asdict(outputs)}
    embedding = state["model"].get("encoder.sentence_encoder.embed_tokens.weight")
    if embedding is not None and config["vocab_size"] != len(embedding):
        wrong = f"vocab_size of {path} is {config['vocab_size']!r:.200}"
        raise ValueError(f"{wrong}, and {len(embedding)} tokens have weights: mend config.json")
    state["task_state"] = {cfg.task._name: info.to_dict()} if info else {}
    return config, state, cfg


def properties_of(folder: Path, outputs: Outputs, recorded: dict) -> PropertyInfo | None:
    """Returns the properties of molecules that a head's outputs are; None if its texts are no SMILES.

    What they mean is said by the configuration, which a training in transformers changes. ``recorded`` is
    what the export knew besides: how SMILES are read (by the tokenizer, too) and, as long as the outputs are
    the same ones, the scale that they were trained in.
    """
    tokenizer, known = folder / TOKENIZER, recorded.get("properties")
    if not known and not (tokenizer.is_file() and written_as(tokenizer) == "smiles"):
        return None
    known = known and PropertyInfo.from_dict(known)
    if known and (known.outputs.problem, known.outputs.names) == (outputs.problem, outputs.names):
        return known
    kind = next(kind for kind, problem in KINDS.items() if problem == outputs.problem)
    names, classes = (("class",), outputs.names) if kind == "multiclass" else (outputs.names, ())
    return PropertyInfo(
        kind,
        names,
        mean=(0.0,) * len(names),
        std=(1.0,) * len(names),
        canonical=recorded.get("smiles") == "canonical",
        allow_valence=known is not None and known.allow_valence,
        classes=classes,
    )


def head_of(config: dict) -> Head | None:
    """Returns the fine-tuned head of the folder, with the recorded name or fairseq's usual one."""
    name = (config.get("architectures") or ["ExLMForMaskedLM"])[0]
    if name in ("ExLMForMaskedLM", "ExLMModel"):
        return None
    usual = {weights.SEQUENCES: "sentence_classification_head", weights.SPANS: "span"}
    return Head(name, config["fairseq"].get("head") or usual[name])


def dictionary_of(folder: Path, data) -> tuple[Dictionary, str | None]:
    """Returns the dictionary in ``data``, else the tokenizer's; and how text is written in its symbols, as of
    ``make_codec``, if the folder says so. Raises ValueError for another dictionary than the model's."""
    tokenizer = folder / TOKENIZER
    source, written = Path(folder if data is None else data), None
    dictionary = read_dictionary(source)
    dictionary.add_symbol(MASK)
    vocabulary = Vocabulary.of(dictionary.symbols, dictionary_file(source))
    if tokenizer.is_file():
        trained_on = Vocabulary.read(folder)
        if vocabulary.symbols == trained_on.symbols:
            written = written_as(tokenizer)
        else:
            vocabulary.check(trained_on, f"give data prepared with --dictionary {folder}, or none (--data)")
    return dictionary, written


def criterion_of(config: dict) -> str:
    """Returns the criterion that trained states of such an alignment: the one recorded, or one of ours."""
    recorded = config["fairseq"].get("criterion")
    criteria = {name: find_states_criterion(name) for name in CRITERION_REGISTRY}
    same = [name for name, one in criteria.items() if one and one.alignment == config["alignment"]]
    return recorded if recorded in same else next(iter(same), config["alignment"])


def task_of(head: Head, smiles: bool, recorded: str | None) -> str:
    """Returns the task that trains such a head, on molecules or not: the one recorded, or one of ours."""
    fitting = [
        name
        for name, task in TASK_REGISTRY.items()
        if issubclass(task, ScoredTask)
        and (task.architecture, task.reads_smiles) == (head.architecture, smiles)
    ]
    return recorded if recorded in fitting else fitting[0]


def run_flags(
    config: dict, head: Head | None, outputs: Outputs | None, info: PropertyInfo | None
) -> DictConfig:
    """Returns the flags of the run by group: those of the model, and of the task and the criterion that train
    what the folder has."""
    copies, longest = config["repeat_times"], exported_config.longest_text(config)
    samples = config["fairseq"].get("samples", {}) | ({"repeat_times": copies} if copies > 1 else {})
    if head is None:
        task = {"_name": "repeated_masked_lm" if copies > 1 else "masked_lm", **samples}
        criterion = {"_name": criterion_of(config) if config["num_states"] else "masked_lm"}
    else:
        name = task_of(head, info is not None, config["fairseq"].get("task"))
        task, criterion = TASK_REGISTRY[name].settings_of(head.name, outputs, longest, copies)
        task = {"_name": name, **samples, **task}
        criterion["_name"] = TASK_REGISTRY[name].criterion
    flags = from_settings({"tie_word_embeddings": True, **config})
    arch, family = str(config["fairseq"].get("arch")), EXLM if config["num_states"] else MLM
    known, _, pre_norm, _ = ARCHITECTURES.get(arch, (None,) * 4)
    if known != family or pre_norm and not flags["encoder_normalize_before"]:
        arch = f"{family}_base"  # an architecture that sets no flag which is given
    model = Namespace(arch=arch, _name=arch, **flags)
    return read_settings({"cfg": {"model": model, "task": task, "criterion": criterion}})
