"""The pages call fairseq-train with the flags and values recorded in commands.json.

Each entry has a name, a page with its arguments and environment, and the call of fairseq-train: positional
arguments, and flags with their values (null for a flag without one). {toys} is the folder that toys.py makes,
{save} the output folder, {plugin} fs_plugins. --save-dir is not recorded: it is {save}.
"""

import json
import shlex
import subprocess
from pathlib import Path

import pytest
from recipes.folders import CONFIGS, ROOT
from recipes.plan.__main__ import assignments

from tests.recipes.plan import toys

SETTINGS = json.loads(Path(__file__).with_name("commands.json").read_text())
SET_BY_CALLER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# environment.sh's variables and functions: here a page shows its command
SHOWING = 'root=$1; python=python; plan() { :; }; source() { :; }; hold() { printf "%q " "$@"; exit 0; }\n'
# What differs on purpose from the recorded commands: GLUE's half precision is scaled as everywhere else, the
# warm-up of MoleculeNet is rounded as everywhere else instead of down.
INTENDED = {
    "glue-gpu": {"--fp16-scale-tolerance": "0.1", "--fp16-scale-window": "50"},
    "glue-repeated-mlm-MNLI": {"--fp16-scale-tolerance": "0.1", "--fp16-scale-window": "50"},
    "moleculenet-bbbp": {"--warmup-updates": "5"},
    "moleculenet-scratch": {"--warmup-updates": "5"},
    "moleculenet-regression": {"--warmup-updates": "5"},
}
# sizes and models that did not exist when the commands were recorded
LATER = {"quickstart", "exlm-lattice", "exlm-soft-lattice"}
LATER |= {"exlm-unequal-states", "exlm-unequal-soft-lattice"}
# which the pages spell out: fairseq's own, and of the model's flags those that are younger than the record
DEFAULTS = {"--update-freq": "1", "--expand-from-layer": "0", "--layer-init-std": "0.02"}
DEFAULTS |= {"--transition-temperature": "1.0"}


@pytest.fixture
def places(toy_inputs) -> dict[str, str]:
    """Placeholder -> the path that it stands for."""
    save, plugin = str(toy_inputs / "save"), str(ROOT / "fs_plugins")
    return {"{save}": save, "{toys}": str(toy_inputs), "{plugin}": plugin}


def command_of(setting: dict, places: dict[str, str], monkeypatch) -> list[str]:
    """The words of the page's call of fairseq-train, on a machine with the GPUs of CUDA_VISIBLE_DEVICES."""
    words = setting["arguments"]
    for name, path in places.items():
        words = [word.replace(name, path) for word in words]
    for name in SET_BY_CALLER:
        monkeypatch.delenv(name, raising=False)
    for name, value in {"CUDA_VISIBLE_DEVICES": "", **setting["environment"]}.items():
        monkeypatch.setenv(name, value)
    planned = assignments(setting["script"].removesuffix(".sh"), [*words, "--print"])
    page = SHOWING + planned + (ROOT / "scripts" / setting["script"]).read_text()
    result = subprocess.run(["bash", "-c", page, "bash", str(ROOT)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    words = shlex.split(result.stdout)
    for name, path in places.items():
        words = [word.replace(path, name) for word in words]
    return words


def read(words: list[str]) -> tuple[list[str], dict[str, str | None]]:
    """(positional arguments, flag -> value or None) of a call of fairseq-train."""
    assert words[0] == "fairseq-train"
    positional, flags, last = [], {}, None
    for word in words[1:]:
        if word.startswith("--"):
            last, _, value = word.partition("=")
            flags[last] = value or None
        elif last is None:
            positional.append(word)
        else:
            assert flags[last] is None, f"{last} has two values: {flags[last]} and {word}"
            flags[last] = word
    return positional, flags


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting["name"])
def test_command_is_as_recorded(setting, places, monkeypatch):
    positional, flags = read(command_of(setting, places, monkeypatch))
    assert flags.pop("--save-dir") == "{save}"
    recorded = DEFAULTS | setting["flags"] | INTENDED.get(setting["name"], {})
    assert (positional, DEFAULTS | flags) == (setting["positional"], recorded)


def test_all_hyperparameter_files_are_covered():
    """Each model, size, recipe, GLUE task and MoleculeNet set is in a setting."""
    words = {(one["script"], word) for one in SETTINGS for word in one["arguments"]}
    expected = {("pretrain_text.sh", path.stem) for path in CONFIGS.glob("model/*.flags")}
    expected |= {("pretrain_text.sh", path.stem) for path in CONFIGS.glob("size/*.flags")}
    expected |= {("pretrain_smiles.sh", path.stem) for path in CONFIGS.glob("*/smiles/*.flags")}
    expected |= {("finetune_moleculenet.sh", path.stem) for path in CONFIGS.glob("finetune/table8/*.flags")}
    expected |= {("finetune_glue.sh", name) for name in toys.GLUE}
    expected -= {(page, name) for page, name in expected if name in LATER}
    assert expected <= words
    assert {path.stem for path in CONFIGS.glob("pretrain/*.flags")} <= {word for _, word in words}
