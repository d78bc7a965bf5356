"""The training scripts call fairseq-train with the flags and values recorded in commands.toml."""

import shlex
import subprocess
import tomllib
from pathlib import Path

import pytest
from recipes.folders import CONFIGS, ROOT
from recipes.plan.__main__ import assignments

SETTINGS = tomllib.loads(Path(__file__).with_name("commands.toml").read_text())["command"]
SET_BY_CALLER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")
# environment.sh's variables and functions: here a page shows its command
SHOWING = 'root=$1; python=python; plan() { :; }; source() { :; }; hold() { printf "%q " "$@"; exit 0; }\n'
# which the scripts spell out for a fine-tuning, and leave to their defaults for a pre-training
DEFAULTS = {"--update-freq": "1", "--expand-from-layer": "0", "--state-graph": "dag"}
DEFAULTS |= {"--state-embedding-scale": "0.0"}


@pytest.fixture
def places(toy_inputs) -> dict[str, str]:
    """Placeholder -> the path that it stands for."""
    save, plugin = str(toy_inputs / "save"), str(ROOT / "fs_plugins")
    return {"{save}": save, "{toys}": str(toy_inputs), "{plugin}": plugin}


def command_of(setting: dict, places: dict[str, str], monkeypatch) -> list[str]:
    """The words of the page's call of fairseq-train, on a machine with the GPUs of CUDA_VISIBLE_DEVICES."""
    words = shlex.split(setting["arguments"])
    for name, path in places.items():
        words = [word.replace(name, path) for word in words]
    for name in SET_BY_CALLER:
        monkeypatch.delenv(name, raising=False)
    environment = dict(word.split("=") for word in setting.get("environment", "").split())
    for name, value in {"CUDA_VISIBLE_DEVICES": "", **environment}.items():
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


def recorded(setting: dict) -> dict[str, str | None]:
    """The flags of a command: those of the first one of its script, and what differs."""
    first = next(one for one in SETTINGS if one["script"] == setting["script"])
    _, base = read(["fairseq-train", *shlex.split(first["flags"])])
    _, own = read(["fairseq-train", *shlex.split(setting.get("flags", ""))])
    without = setting.get("without", "").split()
    assert set(without) <= base.keys()
    return {flag: value for flag, value in {**base, **own}.items() if flag not in without}


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting["name"])
def test_command_is_as_recorded(setting, places, monkeypatch):
    positional, flags = read(command_of(setting, places, monkeypatch))
    assert flags.pop("--save-dir") == "{save}"
    assert (positional, DEFAULTS | flags) == ([setting["data"]], DEFAULTS | recorded(setting))


def test_the_papers_hyperparameter_files_are_covered():
    """Each model, size and recipe of text, and each MoleculeNet set, is in a command."""
    words = {(one["script"], word) for one in SETTINGS for word in shlex.split(one["arguments"])}
    expected = {("pretrain_text.sh", path.stem) for path in CONFIGS.glob("model/*.flags")}
    expected |= {("pretrain_text.sh", path.stem) for path in CONFIGS.glob("size/*.flags")}
    expected |= {("finetune_moleculenet.sh", path.stem) for path in CONFIGS.glob("finetune/table8/*.flags")}
    later = {"quickstart", "exlm-lattice", "exlm-local"}
    assert {(script, name) for script, name in expected if name not in later} <= words
