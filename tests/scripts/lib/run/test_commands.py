"""The training scripts call fairseq-train with the flags and values of commands.csv.

Each of its columns is a call: the words of the script, the environment, the data and all flags but
--save-dir, "yes" where one has no value. {toys} is the folder that support/prepared.py makes, {save} the
output folder, {plugin} fs_plugins. After a change that is meant to, EXLM_RECORD=1 stores what the tests that
run find.
"""

import os
from pathlib import Path

import pandas as pd
import pytest
from lib.command_line import Flags
from lib.files import ROOT

from tests.support import pages

STORED = Path(__file__).with_name("commands.csv")
COMMANDS = pd.read_csv(STORED, index_col="flag", dtype=str, keep_default_na=False)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_is_as_recorded(name, toy_inputs, monkeypatch):
    stored = {flag: value for flag, value in COMMANDS[name].items() if value}
    places = {"{save}": f"{toy_inputs}/save", "{toys}": str(toy_inputs), "{plugin}": f"{ROOT}/fs_plugins"}
    for variable in stored.get("environment", "").split():
        monkeypatch.setenv(*variable.split("="))
    call = stored["call"]
    for short, place in places.items():
        call = call.replace(short, place)
    program, data, *words = pages.command(*call.split())
    flags = {flag: " ".join(values) or "yes" for flag, values in Flags.of(words).items()}
    given = {word: stored[word] for word in ("call", "environment") if word in stored}
    found = {**given, "data": data, **flags}
    for short, place in places.items():
        found = {flag: value.replace(place, short) for flag, value in found.items()}
    assert program == "fairseq-train" and found.pop("--save-dir") == "{save}"
    assert not (toy_inputs / "save").exists()  # nothing is trained
    if os.environ.get("EXLM_RECORD"):
        table = pd.read_csv(STORED, index_col="flag", dtype=str, keep_default_na=False)
        table = table.reindex([*table.index, *sorted(found.keys() - {*table.index})])
        table.assign(**{name: pd.Series(found)}).fillna("").to_csv(STORED)
    assert found == stored
