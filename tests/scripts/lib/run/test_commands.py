"""The training scripts call fairseq-train with the flags and values recorded in commands.toml."""

import tomllib
from pathlib import Path

import pytest
from lib.command_line import Flags
from lib.files import ROOT

from tests.support import pages

COMMANDS = tomllib.loads(Path(__file__).with_name("commands.toml").read_text())
# which the scripts spell out for a fine-tuning, and leave to their defaults for a pre-training
DEFAULTS = "--update-freq 1 --expand-from-layer 0 --state-graph dag --state-embedding-scale 0.0"
DEFAULTS = Flags.of(DEFAULTS.split(" "))


def recorded(name: str) -> Flags:
    """The flags of a command: those of the one that it is like, and what differs."""
    script = COMMANDS[name]["call"].split()[0]
    first = next(other for other, one in COMMANDS.items() if one["call"].startswith(script + " "))
    like = COMMANDS[name].get("like", first)
    flags = (Flags() if like == name else recorded(like)) | Flags.of(COMMANDS[name]["flags"].split())
    without = COMMANDS[name].get("without", "").split()
    assert flags.take(*without).keys() == set(without)
    return flags


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_as_recorded(name, toy_inputs, monkeypatch):
    places = {"{save}": f"{toy_inputs}/save", "{toys}": str(toy_inputs), "{plugin}": f"{ROOT}/fs_plugins"}

    def exchange(words, places):
        for old, new in places.items():
            words = [word.replace(old, new) for word in words]
        return words

    for variable in COMMANDS[name].get("environment", "").split():
        monkeypatch.setenv(*variable.split("="))
    script, *arguments = COMMANDS[name]["call"].split()
    program, data, *flags = exchange(
        pages.command(script, *exchange(arguments, places)), {v: k for k, v in places.items()}
    )
    given = {"pretrain": arguments[2], "finetune_squad": arguments[1], "finetune_moleculenet": arguments[2]}
    given["finetune_glue"] = f"{arguments[2]}/{arguments[0]}-bin"
    assert (program, data) == ("fairseq-train", given.get(script, given["pretrain"]))
    flags = Flags.of(flags)
    assert flags.pop("--save-dir") == ("{save}",)
    assert DEFAULTS | flags == DEFAULTS | recorded(name)
