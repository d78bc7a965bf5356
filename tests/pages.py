"""The pages of scripts/ in this process, which is fast, or as a user runs them, in bash."""

import os
import runpy
import shlex
import subprocess
import sys

from recipes import folders, hold
from recipes.folders import ROOT
from recipes.plan.__main__ import planner

from tests.integration import commands

# a page shows its commands: the training, then the evaluation
SHOW = 'root=$1; python=python; plan() { :; }; source() { :; }; hold() { printf "%q " "$@"; echo; }\n'
SHOW += 'python() { printf "%q " python "$@"; echo; }; rm() { printf "%q " rm "$@"; echo; }\n'


def in_bash(page: str, *words) -> str:
    """Runs a page to its end; returns its output."""
    environment = {
        **os.environ,
        "EXLM_PYTHON": sys.executable,
        "CUDA_VISIBLE_DEVICES": "",
        "OMP_NUM_THREADS": "1",
    }
    command = ["bash", str(ROOT / "scripts" / f"{page}.sh"), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commands_of(page: str, planned: str) -> list[list[str]]:
    """The words of the commands of a page, whose variables are assigned by ``planned``."""
    script = SHOW + planned + (ROOT / "scripts" / f"{page}.sh").read_text()
    result = subprocess.run(["bash", "-c", script, "bash", str(ROOT)], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return [shlex.split(line) for line in result.stdout.splitlines()]


def run(page: str, *words) -> str:
    """Runs a page; returns what its planner says ("finished before", warnings).

    Raises:
        RecipeError: as the page's error.
    """
    words = list(map(str, words))
    plan = planner(page)(f"{page}.sh", words)
    if plan.finished:
        return plan.finished
    training, *others = commands_of(page, plan.shell(words))
    with folders.locked(plan.save):
        folders.claim(plan.save, plan.settings(), plan.inputs, words, hold.RESULTS, runs=training)
        run = commands.train(*training[1:])
        with (plan.save / hold.LOG).open("a") as log:
            log.write(run.log)
    for command in others:
        subprocess.check_call(command) if command[0] == "rm" else _python(command[1:])
    return "\n".join(plan.notes)


def _python(words: list[str]) -> None:
    """``python SCRIPT ARGUMENT...`` or ``python -m MODULE ARGUMENT...``."""
    argv = sys.argv
    try:
        if words[0] == "-m":
            sys.argv = words[1:]
            runpy.run_module(words[1], run_name="__main__")
        else:
            sys.argv = words
            runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        assert not end.code, f"{words} ended with {end.code}"
    finally:
        sys.argv = argv
