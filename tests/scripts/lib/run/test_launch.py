"""A training has a folder of its own, until the last of its commands ends; devices; what users are told."""

import itertools
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from pathlib import Path

import pytest
from lib import files
from lib.command_line import Flags, UserError
from lib.files import ROOT
from lib.run import launch

from fs_plugins.files import write_json
from fs_plugins.finetuning.moleculenet.metrics import METRICS, SCALED
from tests.support import pages
from tests.support.builders import write_file


@pytest.fixture
def bash(tmp_path):
    """bash(COMMAND...) -> the end of a script that runs, as the others, fairseq-train and evaluate.py; here
    these are what ``python`` says of itself, and ends with."""
    python = write_file(
        tmp_path / "python",
        f"""#!/bin/bash
case $2 in
    plan) cat {tmp_path}/plan ;;
    lib.run.folder) exec {sys.executable} "$@" ;;
    *) echo "$@" && eval "$(cat {tmp_path}/does)" ;;
esac
""",
    )
    python.chmod(0o755)
    record = {"settings": {"--lr": "1"}, "inputs": {}, "command": ["a"], "runs": ["a"], "dictionary": None}
    record = json.dumps({**record, "start": None, "evaluated": True, "workers": 1})
    save = tmp_path / "a b"
    lists = "flags=(--lr 1) evaluation=(--device cpu) drop=(checkpoint_last.pt)"
    plan = f"save='{save}' data=d note= print= first=1 record='{record}' {lists}"
    text = f"source {ROOT}/scripts/lib/common.sh; settle plan; run fairseq-train d ${{flags[@]}}; evaluate"
    command = ["bash", "-euo", "pipefail", "-c", text]

    def call(does, start=subprocess.run, **more):
        write_file(tmp_path / "plan", more.get("plan", plan))
        write_file(tmp_path / "does", does)
        environment = {**os.environ, "EXLM_PYTHON": str(python)}
        return start(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)

    call.save, call.plan = save, plan
    return call


def test_a_training_and_its_evaluation_unless_one_fails(bash):
    train, evaluate = "-m fairseq_cli.train d --lr 1\n", "evaluate.py {0}/checkpoint_best.pt d --output {0}"
    for does, status, lines in (("exit 3", 3, 1), ("kill -9 $$", 137, 1), ("[[ $1 == -m ]] || exit 4", 4, 2)):
        done = bash(does)
        assert done.returncode == status and done.stdout.startswith(train)
        assert (evaluate.format(bash.save) in done.stdout) == (lines == 2)
    assert (bash.save / "train.log").read_text().count(train) == 3
    manifest = json.loads((bash.save / files.MANIFEST).read_text())
    assert (manifest["settings"], manifest["command"]) == ({"--lr": "1"}, ["a"])
    for name in ("last", "best"):
        write_file(bash.save / f"checkpoint_{name}.pt", "")
    assert bash("exit 3", plan=bash.plan.replace('"workers": 1', '"workers": 4')).returncode == 3
    assert json.loads((bash.save / files.MANIFEST).read_text())["workers"] == [1, 4]
    assert bash("exit 0").returncode == 0
    assert [path.name for path in bash.save.glob("*.pt")] == ["checkpoint_best.pt"]  # the last is of no use


def test_a_limit_of_time_is_no_end(bash):
    done = bash(f'touch "{bash.save}/unfinished"')
    assert done.returncode == 75 and "evaluate.py" not in done.stdout


def test_the_first_of_several_processes_acts_for_all(bash):
    done = bash("exit 0", plan=bash.plan.replace("first=1", "first="))
    assert (done.returncode, done.stdout) == (0, "-m fairseq_cli.train d --lr 1\n")
    assert not bash.save.exists()


def test_a_folder_is_of_one_run(bash):
    assert bash("exit 1").returncode == 1  # fails at once
    write_file(bash.save / "imported.pt", "")
    other = bash.plan.replace('"1"', '"2"')
    assert bash("exit 0", plan=other).returncode == 0
    for name in ("checkpoint_last.pt", "checkpoint_best.pt", "checkpoint_best.pt.17.tmp"):
        write_file(bash.save / name, "")
    done = bash("exit 0")
    assert done.returncode == 2 and "--lr: there '2', asked '1'" in done.stdout
    assert bash("exit 0", plan=other).returncode == 0
    assert [path.name for path in bash.save.glob("*.pt*")] == ["checkpoint_best.pt"]  # none of a killed run


@pytest.mark.slow
def test_a_folder_is_of_one_process_and_an_interruption_ends_all(bash):
    first = bash("sleep 600", start=subprocess.Popen)
    log, deadline = bash.save / "train.log", time.monotonic() + 600
    while not (log.exists() and log.read_text()):
        assert time.monotonic() < deadline  # on a busy machine
        time.sleep(0.05)
    done = bash("exit 0")
    assert done.returncode == 2 and "another run is at work" in done.stdout
    first.terminate()
    assert first.wait(60) == 130
    assert bash("exit 0").returncode == 0


def chosen(*user, flags="", **more) -> list[str]:
    """The flags of a training with those of its user."""
    args = Namespace(save=Path("s"), user=Flags.of(user))
    training = launch.Training(args, "d", Flags.of(flags) | args.user, **more)
    training.choose_checkpoints()
    return training.flags.words()


def test_the_best_checkpoint_is_that_of_the_lowest_loss_or_the_highest_score():
    """Whatever the script would choose by; a name that is never logged would end the run after an epoch."""
    best, maximize, kept = f"{launch.BEST_BY} f1 {launch.MAXIMIZE}", launch.MAXIMIZE, "--no-epoch-checkpoints"
    assert chosen() == [kept] and chosen("--keep-last-epochs", "2") == ["--keep-last-epochs", "2"]
    assert chosen(flags=best) == [*best.split(), kept]
    of_squad = {"flags": best, "metrics": ("f1", "em", "loss")}
    assert chosen(launch.BEST_BY, "loss", **of_squad) == [launch.BEST_BY, "loss", kept]
    assert chosen(launch.BEST_BY, "em", **of_squad) == [launch.BEST_BY, "em", kept, maximize]
    falls = {"loss", "ppl", "rmse", "mae", SCALED}
    for metric in {*launch.Training.metrics, SCALED, *itertools.chain(*METRICS.values())}:
        assert (maximize in chosen(launch.BEST_BY, metric, metrics=(metric,))) == (metric not in falls)
    with pytest.raises(UserError, match="rmse"):
        chosen(launch.BEST_BY, "auc", metrics=("rmse",))


@pytest.mark.parametrize("case", ["--gpus=1 fused_adamw adam", "--cpu adam fused_adamw"])
def test_a_run_that_is_resumed_keeps_its_optimizer(case, tmp_path):
    device, own, of_run = case.split()
    write_json(tmp_path / files.MANIFEST, {"settings": {"--optimizer": of_run}})
    for optimizer in (own, of_run):  # of one that failed at once, and begins again
        training = pages.resolve("pretrain_text", "exlm", "smoke", "d", tmp_path, "--print", device)
        launch.choose_optimizer(training)
        assert training.flags.value("--optimizer") == optimizer
        (tmp_path / "checkpoint_last.pt").touch()


@pytest.mark.slow
def test_an_error_in_bash_is_one_line_and_trains_nothing(tmp_path):
    """Of this clone's modules, whatever PYTHONPATH and the working directory have besides."""
    others = tmp_path / "others"
    for name in ("lib", "fs_plugins"):
        write_file(others / name / "__init__.py", "raise SystemExit(3)")
    words = ["bash", ROOT / "scripts/pretrain_text.sh", "exlm", "smoke", tmp_path, tmp_path / "s"]
    environment = {**os.environ, "EXLM_PYTHON": sys.executable, "PYTHONPATH": str(others)}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=environment, cwd=others)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{tmp_path}/dict.txt" in done.stderr and not (tmp_path / "s").exists()
