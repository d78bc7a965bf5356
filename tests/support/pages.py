"""The shell scripts that train, in this process, which is fast."""

import contextlib
import io
import os
import runpy
import shlex
import subprocess
import sys
from unittest import mock

from lib.files import ROOT
from lib.finetuning import launch as finetuning
from lib.run import launch, pretraining

from tests.integration import commands


def resolve(script: str, *words) -> launch.Training:
    """What a script is asked for."""
    module = pretraining if script.startswith("pretrain") else finetuning
    return module.resolve(script.split("_")[1], list(map(str, words)))


def run(script: str, *words, execute=None) -> str:
    """Runs a script, the training in this process too; returns what it says, its commands aside.

    Args:
        execute: what runs a command instead, as :func:`lib.run.launch.run`.

    Raises:
        UserError: as the script's error.
    """
    bash = ["bash", str(ROOT / "scripts" / f"{script}.sh")]
    called = subprocess.check_output(bash, text=True, env={**os.environ, "EXLM_PYTHON": "echo"})
    template, _ = launch.called(shlex.split(called)[3:])  # after -m MODULE NAME
    said = io.StringIO()
    with mock.patch.object(launch, "run", execute or _run), contextlib.redirect_stdout(said):
        launch.launch(resolve(script, *words), template)
    return said.getvalue()


def command(script: str, *words) -> list[str]:
    """The words of a script's call of fairseq-train."""
    lines = run(script, *words, "--print").splitlines()
    return shlex.split(next(line for line in lines if line.startswith("fairseq-train ")))


def _run(command: list[str], log, lock: int) -> int:
    if command[0] == "python":
        return _python(command[1:])
    done = commands.train(*command[1:])
    with log.open("a") as file:
        file.write(done.output)
    return 0


def _python(words: list[str]) -> int:
    """``python SCRIPT ARGUMENT...`` or ``python -m MODULE ARGUMENT...``."""
    module = words[0] == "-m"
    with mock.patch.object(sys, "argv", words[module:]):
        try:
            (runpy.run_module if module else runpy.run_path)(words[module], run_name="__main__")
        except SystemExit as end:
            assert not end.code, f"{words} ended with {end.code}"
    return 0
