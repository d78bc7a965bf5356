"""The settings of the workflow: Snakemake's config, checked by scripts/workflow/config.schema.yaml."""

from __future__ import annotations

import shlex
from pathlib import Path
from types import SimpleNamespace

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from lib.command_line import Flags, UserError
from lib.study.runs import WORKFLOW, targets

SCHEMA = yaml.safe_load((WORKFLOW / "config.schema.yaml").read_text(encoding="utf-8"))
SENTENCES = {"smoke": 500, "small": 2000}  # by size, for the measures
MOST_SENTENCES = 5000
PATHS = ("data", "smiles", "glue", "squad", "runs_table", "models", "init_from", "moleculenet")
# What makes a run of the study that run, or has a setting of its own
NOT_IN_FLAGS = {"--max-update", "--total-num-update", "--mask-prob", "--ext-state-num", "--repeat-times"}
NOT_IN_FLAGS |= {"--k", "--p", "--updates", "--gpus", "--cpu"}  # options of the training scripts
NOT_IN_FLAGS |= {"--task", "--criterion", "--arch", "--seed", "--save-dir", "--restore-file", "--user-dir"}
OF_POINTS = {"--lr", "--batch-size", "--max-epoch", "--warmup-ratio"}


def read(config: dict) -> SimpleNamespace:
    """The settings by name; those that are not given have their default, or None.

    Raises:
        UserError: for an unknown setting, a value that cannot be, or a path that does not exist.
    """
    known = {name: _resolved(one) for name, one in SCHEMA["properties"].items()}
    if unknown := sorted(config.keys() - known):
        raise UserError(f"unknown setting {unknown[0]}: choose from {', '.join(sorted(known))}")
    if not config.get("output"):
        raise UserError("give the folder for the results: --config output=runs/NAME ...")
    given = {name: _typed(value, known[name]) for name, value in config.items() if value is not None}
    if error := best_match(Draft202012Validator(SCHEMA).iter_errors(given)):
        name = error.absolute_path[0]
        raise UserError(f"{name}={config[name]}: {error.message} ({known[name].get('description')})")
    settings = SimpleNamespace(**{name: given.get(name, one.get("default")) for name, one in known.items()})
    for name in PATHS:
        value = getattr(settings, name)
        for path in value.values() if isinstance(value, dict) else filter(None, [value]):
            if not Path(path).exists():
                raise UserError(f"{name}: {path} does not exist")
    if settings.rates and len(settings.seeds) < 2:
        raise UserError(
            "rates: the first of seeds chooses each model's learning rate, and the others are reported: give "
            "two seeds or more, such as seeds=1,2,3,4"
        )
    if unknown := settings.init_from.keys() - settings.models.keys():
        raise UserError(f"init_from {min(unknown)} is none of models: {', '.join(settings.models)}")
    settings.sentences = settings.sentences or SENTENCES.get(settings.size, MOST_SENTENCES)
    settings.targets = targets(settings.runs_table and Path(settings.runs_table))
    of_runs = {word for one in settings.targets.values() for run in one.runs for word in run.flags}
    taken = {"flags": NOT_IN_FLAGS | of_runs | ({"--lr"} if settings.rates else set())}
    for name, names in {**taken, "finetune_flags": OF_POINTS}.items():
        if wrong := sorted(names & Flags.of(shlex.split(getattr(settings, name))).keys()):
            raise UserError(
                f"{name}: {', '.join(wrong)} would apply to runs that differ in it; use the settings "
                "updates, max_epoch, only, seeds, rates and gpus"
            )
    return settings


def _resolved(schema: dict) -> dict:
    """A property's schema, with what it refers to."""
    return {**SCHEMA["$defs"].get(schema.get("$ref", "").removeprefix("#/$defs/"), {}), **schema}


def _typed(value, schema: dict):
    """A value of the command line in the type of its schema, if it has a form of that; else as it is."""
    kind = schema.get("type")
    if kind == "object" and isinstance(value, str):
        pairs = [word.strip().partition("=")[::2] for word in value.split(",")]
        value = dict(pairs) if len(dict(pairs)) == len(pairs) else value
    elif kind == "array" and not isinstance(value, list):
        value = [word.strip() for word in str(value).split(",")]
    if kind == "object" and isinstance(value, dict):
        of = {**dict.fromkeys(value, schema.get("additionalProperties")), **schema.get("properties", {})}
        return {str(name): _typed(one, _resolved(of[name] or {})) for name, one in value.items()}
    if kind == "array" and isinstance(value, list):
        return [_typed(one, schema["items"]) for one in value]
    if kind == "string" and isinstance(value, (int, float)):
        return str(value)
    if kind in ("integer", "number"):
        try:
            return int(value) if float(value).is_integer() else float(value)
        except (TypeError, ValueError):
            return value
    return value
