"""The settings in a checkpoint are data: plain values of known flags, and the names of a known task and
criterion. What else a stranger's file holds is left out, or refused by name, before it is used."""

import argparse
import dataclasses

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY
from omegaconf import DictConfig, ListConfig, OmegaConf

from fs_plugins.models.flags import ROPE_DIMENSIONS
from fs_plugins.models.mlm import RotaryRobertaModel

FINETUNING_TASKS = (
    "sentence_prediction",
    "repeated_sentence_prediction",
    "glue",
    "molecule_property",
    "squad2",
)
PRETRAINING_TASKS = ("masked_lm", "repeated_masked_lm", "varied_masked_lm")
TASKS = (*PRETRAINING_TASKS, *FINETUNING_TASKS)
CRITERIA = (
    "masked_lm",
    "masked_lm_accuracy",
    "causal_masked_lm",
    "nat_dag_loss_mlm",
    "nat_ctc_loss_mlm",
    "sentence_prediction",
    "molecule_property",
    "squad2",
)
# the other groups, which nothing but a model's card reads
OTHERS = ("common", "dataset", "optimization", "optimizer", "lr_scheduler", "checkpoint")
PLAIN = (bool, int, float, str)


def read_settings(state: dict) -> DictConfig:
    """Returns the flags of a run by group, from what fairseq-train saved; ``model`` is a Namespace.

    Raises:
        ValueError: for an architecture, task or criterion that is none of ours, a value that a flag of the
            model does not take (they become words of commands), or an interpolation.
    """
    if isinstance(args := state.get("args"), argparse.Namespace):  # of older fairseq: all flags in one
        flat = _plain(args)
        groups = dict.fromkeys(("model", "task", "criterion", *OTHERS), flat)
        arch, task, criterion = (flat.get(name) for name in ("arch", "task", "criterion"))
    else:
        groups = _plain(state["cfg"])
        named = (groups[what] for what in ("model", "task", "criterion"))
        arch, task, criterion = (group.get("_name") or group.get("arch") for group in named)
    model = ARCH_MODEL_REGISTRY.get(str(arch), object)
    if not issubclass(model, RotaryRobertaModel):
        raise ValueError(
            f"--arch {arch!s:.200} is not supported; supported are p_roberta*, mlm_*, "
            "p_roberta_ext_denselink* and exlm_*"
        )
    flags = {flag.name: flag.kind for flag in (*model.flags, ROPE_DIMENSIONS)}
    given = {name: groups["model"][name] for name in flags if groups["model"].get(name) is not None}
    for name, value in given.items():
        flags[name].checked(value, f"{name} {value!r:.200}")
    settings = {"model": argparse.Namespace(_name=arch, arch=arch, **given)}
    for what, name, known, registry in (
        ("task", task, TASKS, TASK_DATACLASS_REGISTRY),
        ("criterion", criterion, CRITERIA, CRITERION_DATACLASS_REGISTRY),
    ):
        if name not in known:
            raise ValueError(f"{what} {name!r:.200} is not supported; supported are {', '.join(known)}")
        fields = dataclasses.fields(registry[name]) if registry.get(name) else ()
        names = {"repeat_times", *(field.name for field in fields)}
        settings[what] = {**_plain_values(groups[what], names), "_name": name}
    for what in OTHERS:
        settings[what] = _plain_values(groups.get(what) or {})
    return OmegaConf.create(settings, flags={"allow_objects": True})


def _plain(value):
    """Returns the value with groups as dicts. Raises ValueError for interpolations, which OmegaConf would
    follow, to environment variables too."""
    if isinstance(value, DictConfig | ListConfig):
        value = OmegaConf.to_container(value, resolve=False)
    if isinstance(value, argparse.Namespace):
        value = vars(value)
    if isinstance(value, dict):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if isinstance(value, str) and "${" in value:
        raise ValueError(f"{value!r:.200} is an interpolation, which is not followed")
    return None if value == "???" else value  # OmegaConf's sign for no value


def _plain_values(group: dict, names: set[str] | None = None) -> dict:
    """Returns the values of these names (None for all) that are numbers, text or lists of them."""

    def is_plain(value) -> bool:
        return isinstance(value, PLAIN) or (isinstance(value, list) and all(map(is_plain, value)))

    wanted = group if names is None else names & group.keys()
    return {name: group[name] for name in wanted if is_plain(group[name])}
