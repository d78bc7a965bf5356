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
SENTENCES = {"smoke": 500, "small": 2000, "paper": 5000}  # by size, for the measures
FILES, FOLDERS = ("models", "init_from"), ("moleculenet",)  # name -> path
# What makes a run of the study that run, or has a setting of its own
NOT_IN_FLAGS = {"--max-update", "--total-num-update", "--mask-prob", "--ext-state-num", "--repeat-times"}
NOT_IN_FLAGS |= {"--k", "--p", "--updates", "--gpus", "--cpu"}  # options of the training scripts
NOT_IN_FLAGS |= {"--task", "--criterion", "--arch", "--seed", "--save-dir", "--restore-file", "--user-dir"}


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
    for name in ("data", "glue", "squad", "runs_table", *FILES, *FOLDERS):
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
    Flags.of(shlex.split(settings.flags))  # raises UserError if they are none
    settings.sentences = settings.sentences or SENTENCES[settings.size]
    settings.targets = targets(settings.runs_table and Path(settings.runs_table))
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
        return {str(name): _typed(one, schema["additionalProperties"]) for name, one in value.items()}
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


def check_study(settings: SimpleNamespace) -> None:
    """Raises UserError unless the settings and the data of the study's pre-trainings fit together."""
    of_runs = NOT_IN_FLAGS | ({"--lr"} if settings.rates else set())
    for target in settings.targets.values():
        of_runs |= {word for run in target.runs for word in run.flags if word.startswith("--")}
    if taken := of_runs & Flags.of(shlex.split(settings.flags)).keys():
        raise UserError(
            f"flags: {', '.join(sorted(taken))} would apply to runs that differ in it; use the settings "
            "updates, only, seeds, rates and gpus"
        )
    if settings.data is None and (settings.glue or settings.size != "smoke"):
        asked = f"size={settings.size}" if settings.size != "smoke" else "glue=FOLDER"
        raise UserError(f"{asked} needs data=FOLDER, the pre-training data, made by scripts/prepare_text.py")
    for name in ("dict.txt", "train.bin", "valid.bin") if settings.data else ():
        if not (Path(settings.data) / name).exists():
            raise UserError(
                f"data={settings.data} has no {name}: give a folder made by scripts/prepare_text.py or "
                "fairseq-preprocess --only-source, with a training and a validation set"
            )


def check_glue(settings: SimpleNamespace, tasks: tuple[str, ...], same_dictionary: bool) -> None:
    """Raises UserError unless GLUE tasks are prepared; with the dictionary of ``data`` if that is asked."""
    for task in tasks:
        folder = Path(settings.glue) / f"{task}-bin"
        if not (folder / "summary.json").is_file():
            raise UserError(
                f"glue={settings.glue} has no {task}-bin: prepare it with scripts/prepare_glue.py"
            )
        dictionary = folder / "input0" / "dict.txt"
        if same_dictionary and dictionary.read_bytes() != (Path(settings.data) / "dict.txt").read_bytes():
            raise UserError(
                f"{dictionary} differs from that of {settings.data}: prepare GLUE with "
                f"scripts/prepare_glue.py --data {settings.data}"
            )
