"""The settings in a checkpoint are data: values of known flags, by group. What else a stranger's file holds
is left out, or refused by name, before it is used."""

from argparse import Namespace
from dataclasses import fields

from fairseq.criterions import CRITERION_DATACLASS_REGISTRY, CRITERION_REGISTRY, FairseqCriterion
from fairseq.models import ARCH_MODEL_REGISTRY
from fairseq.tasks import TASK_DATACLASS_REGISTRY, TASK_REGISTRY
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from omegaconf import DictConfig, OmegaConf

from fs_plugins.finetuning.scored import ScoredTask
from fs_plugins.models.flags import read_flags
from fs_plugins.models.mlm import RotaryRobertaModel

TASKS = (MaskedLMTask, SentencePredictionTask, ScoredTask)  # those that train such models, and their like


def is_pretraining(task: str) -> bool:
    """Returns whether a task of that name trains a model for others to start from."""
    return issubclass(TASK_REGISTRY[task], MaskedLMTask)


def read_settings(state: dict) -> DictConfig:
    """Returns the flags of a run by group, from the state that fairseq-train saved; ``model`` is a Namespace.

    Raises:
        ValueError: for an architecture or a task that is none of ours, a criterion that is not registered,
            or a value that a flag of the model does not take.
    """
    if (groups := state.get("cfg")) is None:  # older fairseq has all flags in one
        flat, names = vars(state["args"]), {"model": "arch", "task": "task", "criterion": "criterion"}
        groups = {group: {**flat, "_name": flat.get(name)} for group, name in names.items()}
    groups = {
        group: vars(flags) if isinstance(flags, Namespace) else flags for group, flags in groups.items()
    }
    arch = groups["model"].get("_name")
    model = ARCH_MODEL_REGISTRY.get(str(arch), object)
    if not issubclass(model, RotaryRobertaModel):
        raise ValueError(
            f"--arch {arch!s:.200} is not supported; supported are p_roberta*, mlm_*, "
            "p_roberta_ext_denselink* and exlm_*"
        )
    values = read_flags(groups["model"], model.flags)
    settings = {"model": Namespace(_name=arch, arch=arch, **values)}
    for group, supported, registry, dataclasses in (
        ("task", TASKS, TASK_REGISTRY, TASK_DATACLASS_REGISTRY),
        ("criterion", FairseqCriterion, CRITERION_REGISTRY, CRITERION_DATACLASS_REGISTRY),
    ):
        name = groups[group].get("_name")
        if not issubclass(registry.get(name, object), supported):
            raise ValueError(f"--{group} {name!r:.200} is not supported")
        known = {one.name for one in fields(dataclasses[name])} if name in dataclasses else set()
        plain = {key: value for key, value in groups[group].items() if key in known and _is_plain(value)}
        settings[group] = {**plain, "_name": name}
    return OmegaConf.create(settings, flags={"allow_objects": True})


def _is_plain(value) -> bool:
    """Returns whether it is a number or a text; none that OmegaConf would replace or take for missing."""
    return isinstance(value, bool | int | float | str) and not ("${" in str(value) or value == "???")
