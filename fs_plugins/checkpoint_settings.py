"""The settings in a checkpoint are data: values of known flags, checked by the type, choices and range of
each, and the names of a known task and criterion. Anything else is refused by name, or left out, before it
is used."""

import argparse
import ast
import dataclasses
import enum
import importlib.util
import typing
from collections.abc import Mapping

import torch
from fairseq import options
from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig, ListConfig, OmegaConf
from torch import Tensor

from fs_plugins.compat import wrap
from fs_plugins.models.flags import HEAD_NAME, POSITIVE, PROBABILITY, ROPE_DIMENSIONS, SIZE, Kind
from fs_plugins.models.mlm import RotaryRobertaModel

FINETUNING_TASKS = (
    *("sentence_prediction", "repeated_sentence_prediction", "glue", "molecule_property", "squad2"),
)
PRETRAINING_TASKS = ("masked_lm", "repeated_masked_lm", "varied_masked_lm")
TASKS = (*PRETRAINING_TASKS, *FINETUNING_TASKS)
CRITERIA = (
    *("masked_lm", "masked_lm_accuracy", "nat_dag_loss_mlm", "nat_ctc_loss_mlm", "sentence_prediction"),
    *("molecule_property", "squad2"),
)
# the other groups, which nothing but a model's card reads: what is not plain in them is left out
OTHERS = ("common", "dataset", "optimization", "optimizer", "lr_scheduler", "checkpoint")
# ranges, which fairseq's own flags do not have
SIZES = (
    *("tokens_per_sample", "repeat_times", "num_classes", "tokens_per_molecule", "window_tokens"),
    *("doc_stride", "max_question_tokens", "max_answer_tokens", "max_positions"),
)
RANGES = dict.fromkeys(SIZES, SIZE)
RANGES |= dict.fromkeys(("classification_head_name", "head_name"), HEAD_NAME)
RANGES |= dict.fromkeys(("log_interval", "save_interval", "validate_interval"), Kind(int, 1))
RANGES |= dict.fromkeys(("warmup_updates", "max_update", "clip_norm"), POSITIVE)
RANGES |= dict.fromkeys(("leave_unmasked_prob", "random_token_prob", "mask_prob_spread"), PROBABILITY)
RANGES["mask_prob"] = Kind(float, 0.001, 0.999)
RANGES |= {"weight_decay": Kind(float, 0, 100), "num_workers": Kind(int, 0, 1024)}
# flags that a model's weights show: the end of a weight's name, and its dimension that is the flag's value
SHOWN = {
    "encoder_embed_dim": ("embed_tokens.weight", 1),
    "encoder_ffn_embed_dim": ("layers.0.fc1.weight", 0),
    "max_positions": ("link_positional.weight", 0),
    "ext_state_num": ("link_positional.weight", 0),  # at least a mask's states fit
}
LAYER = "encoder.sentence_encoder.layers."
PLAIN = (bool, int, float, str)
DEPTH = 10


def read_settings(state: dict) -> DictConfig:
    """The flags of a run by group, from what fairseq-train saved; ``model`` is a Namespace. Raises ValueError
    if there are none, or for a flag, task or criterion that is not as it must be."""
    if isinstance(args := state.get("args"), argparse.Namespace):  # of older fairseq: all flags in one
        flat = _plain(args)
        groups = dict.fromkeys(("model", "task", "criterion", *OTHERS), flat)
        arch, task, criterion = (flat.get(name) for name in ("arch", "task", "criterion"))
    elif not isinstance(groups := _plain(state.get("cfg")), dict):
        raise ValueError("it has no flags of its run, neither 'cfg' nor 'args'")
    else:
        groups = {key: value for key, value in groups.items() if isinstance(value, dict)}
        named = (groups.get(what, {}) for what in ("model", "task", "criterion"))
        arch, task, criterion = (g.get("arch" if g.get("_name") is None else "_name") for g in named)
    model = ARCH_MODEL_REGISTRY.get(arch, object) if isinstance(arch, str) else object
    if not issubclass(model, RotaryRobertaModel):
        raise ValueError(
            f"it is a checkpoint of --arch {arch!s:.200}: this reads those of p_roberta*, mlm_*, "
            "p_roberta_ext_denselink* and exlm_*"
        )
    kinds = {flag.name: flag.kind for flag in (*model.flags, ROPE_DIMENSIONS)}
    settings = {"model": argparse.Namespace(_name=arch, arch=arch, **_checked(groups["model"], kinds))}
    for what, name, known, registry in (
        ("task", task, TASKS, TASK_DATACLASS_REGISTRY),
        ("criterion", criterion, CRITERIA, CRITERION_DATACLASS_REGISTRY),
    ):
        if not isinstance(name, str) or name not in known:
            raise ValueError(f"it is of --{what} {name!r:.200}: this reads those of {', '.join(known)}")
        kinds = {"repeat_times": SIZE} | _kinds(registry.get(name))
        settings[what] = {"_name": name, **_checked(groups[what], kinds)}
    for what in OTHERS:
        settings[what] = {name: value for name, value in groups.get(what, {}).items() if _is_plain(value)}
    return OmegaConf.create(settings, flags={"allow_objects": True})


@wrap(options, "parse_args_and_arch")
def check_flags(original, *args, **kwargs):
    """To fairseq ``--bf16`` means a TPU, here a GPU or CPU too. Raises ValueError for ``--fp16``
    without a GPU, what fails in fairseq's masking without an explanation, and a value that our models, or
    the task or criterion that they are trained by, do not take."""
    parsed = original(*args, **kwargs)
    flags = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(flags, "fp16", False) and (getattr(flags, "cpu", False) or not torch.cuda.is_available()):
        raise ValueError("--fp16 needs a GPU: with --cpu, or without one, leave it out or use --bf16")
    if getattr(flags, "bf16", False) and importlib.util.find_spec("torch_xla") is None:
        flags.tpu = False
    if getattr(flags, "mask_whole_words", False):
        raise ValueError("--mask-whole-words fails in fairseq's masked_lm: leave it out")
    model = ARCH_MODEL_REGISTRY.get(getattr(flags, "arch", None), object)
    if issubclass(model, RotaryRobertaModel):
        model.check(flags)
        kinds = _kinds(TASK_DATACLASS_REGISTRY.get(flags.task))
        kinds |= _kinds(CRITERION_DATACLASS_REGISTRY.get(flags.criterion))
        _checked(vars(flags), kinds | RANGES)
        for rate in flags.lr or ():
            _checked({"lr": rate}, {"lr": Kind(float, 0, 100)})
        shares = [getattr(flags, name, None) or 0 for name in ("leave_unmasked_prob", "random_token_prob")]
        if sum(shares) > 1:
            raise ValueError(
                f"--leave-unmasked-prob and --random-token-prob are {sum(shares):g} together, above 1"
            )
        betas = getattr(flags, "adam_betas", None)
        try:
            betas = ast.literal_eval(betas) if isinstance(betas, str) else betas
        except (ValueError, SyntaxError):
            betas = ()
        if betas is not None and not (isinstance(betas, list | tuple) and len(betas) == 2):
            raise ValueError(f"--adam-betas {flags.adam_betas}: give two numbers, such as '(0.9,0.98)'")
    return parsed


def check_weights(model: argparse.Namespace, weights: Mapping[str, Tensor]) -> None:
    """Raises ValueError if weights are not finite, or a model of these flags would be larger than they are,
    before it is built."""
    for name, weight in weights.items():
        if weight.is_meta or not weight.is_floating_point():
            kind = f"{weight.dtype} on {weight.device}"
            raise ValueError(f"{name} is {kind}: weights are numbers of floating point, with their values")
        if not weight.isfinite().all():
            raise ValueError(f"{name} has values that are not finite numbers: give a checkpoint of before")
    layers = {name.removeprefix(LAYER).split(".")[0] for name in weights if name.startswith(LAYER)}
    most = {"encoder_layers": len(layers)}
    for flag, (end, dimension) in SHOWN.items():
        for name, weight in weights.items():
            if name.endswith(end) and len(weight.shape) == 2:
                most[flag] = weight.shape[dimension]
    for flag, limit in most.items():
        if (size := getattr(model, flag, None) or 0) > limit:
            raise ValueError(f"--{flag.replace('_', '-')} is {size:,}, but its weights have {limit:,}")


def _plain(value, name: str = "its settings", depth: int = DEPTH):
    """The value with groups as dicts. Raises ValueError for interpolations, which OmegaConf would follow, and
    for what is nested without end."""
    if depth == 0:
        raise ValueError(f"{name} are nested more than {DEPTH} deep")
    if isinstance(value, DictConfig | ListConfig):
        value = OmegaConf.to_container(value, resolve=False)
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): _plain(inner, str(key), depth - 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, name, depth - 1) for inner in value]
    if isinstance(value, str) and "${" in value:
        raise ValueError(f"{name} is {value!r}: an interpolation, which is not followed")
    return None if value == "???" else value  # OmegaConf's sign for no value


def _is_plain(value) -> bool:
    return isinstance(value, PLAIN) or (isinstance(value, list) and all(isinstance(v, PLAIN) for v in value))


def _checked(group: dict, kinds: dict[str, Kind]) -> dict:
    """What a group has of these flags."""
    given = {name: group[name] for name in kinds if group.get(name) is not None}
    for name, value in given.items():
        if not (kinds[name].fits(value) and _is_plain(value)):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option} is {value!r:.200}: it must be {kinds[name]}")
    return given


def _kinds(settings: type | None) -> dict[str, Kind]:
    """Of the fields of fairseq's dataclass for a task or criterion."""
    kinds = {}
    for field in dataclasses.fields(settings) if settings else ():
        kind, *_ = typing.get_args(field.type) or [field.type]  # of an Optional
        if isinstance(kind, enum.EnumMeta):
            kinds[field.name] = Kind(str, choices=[choice.value for choice in kind])
        elif typing.get_origin(field.type) is list:
            kinds[field.name] = Kind(list)
        elif kind in PLAIN and not field.name.startswith("_"):
            kinds[field.name] = RANGES.get(field.name, Kind(kind))
    return kinds
