"""The settings in a checkpoint are data: plain values of known flags, and the names of a known task and
criterion. What else a stranger's file holds is left out, or refused by name, before it is used."""

import argparse
import dataclasses

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import DictConfig, ListConfig, OmegaConf

from fs_plugins.criterions.states_criterion import StatesCriterion
from fs_plugins.finetuning.scored import ScoredTask
from fs_plugins.models.mlm import RotaryRobertaModel

TASKS, LOSSES = (MaskedLMTask, SentencePredictionTask, ScoredTask), (MaskedLmLoss, StatesCriterion)
PLAIN = (bool, int, float, str)


def tasks() -> set[str]:
    """Returns the tasks whose checkpoints are read: the plugin's, and those of fairseq that they extend."""
    return {name for name, task in TASK_REGISTRY.items() if issubclass(task, TASKS)}


def criteria() -> set[str]:
    """Returns the criteria that such tasks train with."""
    of_tasks = {getattr(TASK_REGISTRY[name], "criterion", None) for name in tasks()}
    return {name for name, loss in CRITERION_REGISTRY.items() if name in of_tasks or issubclass(loss, LOSSES)}


def is_pretraining(task: str) -> bool:
    """Returns whether a task of that name trains a model for others to start from."""
    return issubclass(TASK_REGISTRY[task], MaskedLMTask)


def read_settings(state: dict) -> DictConfig:
    """Returns the flags of a run by group, from what fairseq-train saved; ``model`` is a Namespace.

    Raises:
        ValueError: for an architecture, task or criterion that is none of ours, a value that a flag of the
            model does not take (they become words of commands), or an interpolation.
    """
    if isinstance(args := state.get("args"), argparse.Namespace):  # older fairseq has all flags in one
        flat = _plain(args)
        groups = dict.fromkeys(("model", "task", "criterion"), flat)
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
    flags = [flag for flag in model.flags if not flag.is_switch_of_training]
    given = {flag: groups["model"].get(flag.name) for flag in flags}
    given = {flag.name: flag.checked(value) for flag, value in given.items() if value is not None}
    settings = {"model": argparse.Namespace(_name=arch, arch=arch, **given)}
    for what, name, supported, registry in (
        ("task", task, tasks(), TASK_DATACLASS_REGISTRY),
        ("criterion", criterion, criteria(), CRITERION_DATACLASS_REGISTRY),
    ):
        if name not in supported:
            known = ", ".join(sorted(supported))
            raise ValueError(f"{what} {name!r:.200} is not supported; supported are {known}")
        fields = dataclasses.fields(registry[name]) if registry.get(name) else ()
        names = {"repeat_times", *(field.name for field in fields)}
        kept = {name: value for name, value in groups[what].items() if name in names and _is_plain(value)}
        settings[what] = {**kept, "_name": name}
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


def _is_plain(value) -> bool:
    """Returns whether it is a number, text or a list of these."""
    return isinstance(value, PLAIN) or (isinstance(value, list) and all(map(_is_plain, value)))
