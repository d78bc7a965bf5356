"""The shell scripts that train, in this process, which is fast."""

import contextlib
import io
import json
import os
import runpy
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest
from lib.files import ROOT
from lib.finetuning import launch as finetuning
from lib.run import folder, launch, pretraining

from tests.integration import commands
from tests.support import builders


def resolve(script: str, *words) -> launch.Training:
    """What a script is asked for."""
    module = pretraining if script.startswith("pretrain") else finetuning
    return module.resolve(script.split("_")[1], list(map(str, words)))


def template(script: str) -> list[list[str]]:
    """The commands that a script runs, with @data, @save, @flags and @evaluation."""
    words = "save=@save data=@data note= print=1 first=1 record= drop=()"
    words += " flags=(@flags) evaluation=(@evaluation)"
    with tempfile.TemporaryDirectory() as place:
        stub = builders.write_file(Path(place, "python"), f'#!/bin/sh\necho "{words}"\n')
        stub.chmod(0o755)
        bash = ["bash", str(ROOT / "scripts" / f"{script}.sh")]
        said = subprocess.check_output(bash, text=True, env={**os.environ, "EXLM_PYTHON": str(stub)})
    return [shlex.split(line) for line in said.splitlines()]


def run(script: str, *words, execute=None) -> str:
    """Runs a script's commands, the training in this process too; returns what it says.

    Args:
        execute: what runs a command instead, with the file of its output.

    Raises:
        UserError: as the script's error.
    """
    training = resolve(script, *words)
    todo = filled(script, training)
    save = training.args.save
    save.mkdir(parents=True, exist_ok=True)
    if said := folder.take(save, json.loads(json.dumps(training.record(), default=str))):
        return said
    said = io.StringIO()
    with contextlib.redirect_stdout(said), mock.patch.object(folder, "is_held", return_value=True):
        for command in todo:
            if status := (execute or _run)(command, save / "train.log"):
                raise AssertionError(f"{command} ended with {status}")
    for name in training.dropped:
        (save / name).unlink(missing_ok=True)
    return said.getvalue()


def filled(script: str, training: launch.Training) -> list[list[str]]:
    """The commands of a script for a training."""
    launch.choose_optimizer(training)
    training.choose_checkpoints()
    values = {"@data": [training.data], "@save": [str(training.args.save)], "@flags": training.flags.words()}
    values["@evaluation"] = training.evaluation
    values["@save/checkpoint_best.pt"] = [str(training.args.save / "checkpoint_best.pt")]
    return [[w for word in line for w in values.get(word, [word])] for line in template(script)]


def command(script: str, *words) -> list[str]:
    """The words of a script's call of fairseq-train."""
    return filled(script, resolve(script, *words, "--print"))[0]


def _run(command: list[str], log) -> int:
    """fairseq-train, or ``python SCRIPT ARGUMENT...``; its exit status."""
    if command[0] == "fairseq-train":
        done = commands.train(*command[1:])
        with log.open("a") as file:
            file.write(done.output)
        return 0
    with mock.patch.object(sys, "argv", command[1:]), pytest.raises(SystemExit) as end:
        runpy.run_path(command[1], run_name="__main__")
    return end.value.code
