"""A training has a folder of its own, until the last of its commands ends; devices; what users are told."""

import fcntl
import itertools
import json
import os
import shutil
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
from tests.support import launched, pages
from tests.support.builders import write_file


@pytest.fixture
def run(capfd):
    """run(SAVE, PROGRAM, WORD, flag..., evaluate=COMMAND) -> exit status, and both outputs."""

    def call(save, *template, lr="1", evaluate="") -> tuple[int, str, str]:
        capfd.readouterr()
        status = launched.main([*template, evaluate, "--", str(save), lr])
        return status, *capfd.readouterr()

    return call


def test_a_training_and_its_evaluation_unless_one_fails(run, tmp_path, monkeypatch):
    save = tmp_path / "a b"
    train = ["bash", str(write_file(tmp_path / "train", "echo $1 $2; echo two >&2"))]
    evaluated = f"{save}/checkpoint_best.pt data --output {save} --device cpu\n"
    said = f"--lr 1\ntwo\n{evaluated}"
    for end, status in (("exit 3", 3), ("kill -9 $$", 128 + 9)):
        evaluate = write_file(tmp_path / "evaluate", f'echo "$@"; {end}')
        assert run(save, *train, evaluate=f"bash {evaluate}") == (status, said, "")
    assert (save / "train.log").read_text() == 2 * said
    manifest = json.loads((save / files.MANIFEST).read_text())
    assert manifest["command"] == ["script.sh", str(save), "1"]
    assert manifest["runs"] == [*train, "--lr", "1", "--log-interval", "1"]
    assert manifest["settings"] == {"seed": 1, "--lr": "1"}
    for name in ("last", "best"):
        write_file(save / f"checkpoint_{name}.pt", "")
    assert run(save, *train, evaluate="true")[0] == 0
    assert [path.name for path in save.glob("*.pt")] == ["checkpoint_best.pt"]  # the last is of no more use
    assert run(tmp_path / "fails", "false", "data", evaluate="echo never") == (1, "", "")
    monkeypatch.setenv("RANK", "1")  # of several processes, the first acts for all
    said = "trains --lr 1 --log-interval 1\n"
    assert run(tmp_path / "save", "echo", "trains", evaluate="echo evaluates") == (0, said, "")
    assert not (tmp_path / "save").exists()


def filled(template, *user, flags=None, **more) -> tuple[launch.Training, list[str]]:
    """A training of a template between DATA and what was resolved, and the flags of its command."""
    args = Namespace(save=Path("s"), user=Flags.of(user))
    training = launch.Training(args, "d", args.user if flags is None else flags, **more)
    program, data, *words = training.train_command(f"fairseq-train @data {template} @flags".split())[0]
    assert (program, data) == ("fairseq-train", "d")
    return training, words


def test_a_flag_is_given_once_and_values_are_no_words_of_the_command():
    """Whatever a flag's value begins with."""
    flags = Flags({"--lr": ("3",), "--a": ("--lr", "--b=1")})
    template = "--save-dir @save --seed 1 --lr 1 --seed 2"
    training, words = filled(template, flags=flags, free=("--lr",))
    assert " ".join(words) == "--save-dir s --seed 2 --lr 3 --a --lr --b=1"
    _, flags = training.train_command(["fairseq-train", "@data", *template.split()])
    assert training.all_settings(flags) == {"--a": "--lr --b=1", "--seed": "2"}


def test_checkpoints_of_epochs_that_are_to_be_kept():
    """Which the scripts do not save otherwise."""
    never, kept, last = (
        "--no-epoch-checkpoints --save-interval 9",
        "--keep-interval-updates 1",
        "--keep-last-epochs 2",
    )
    for asked, expected in (
        ("", f"{never} {kept}"),
        (last, f"{kept} {last}"),
        (f"{last} --save-interval 3", f"{kept} --save-interval 3 {last}"),
    ):
        assert Flags.of(filled(f"{never} {kept}", *asked.split())[1]) == Flags.of(expected)


def test_the_best_checkpoint_is_that_of_the_lowest_loss_or_the_highest_score():
    """Whatever the script would choose by; a name that is never logged would end the run after an epoch."""
    best, maximize = "--best-checkpoint-metric", "--maximize-best-checkpoint-metric"
    by_f1, of_squad = f"{best} f1 {maximize}", {"metrics": ("f1", "em", "loss")}
    assert filled(by_f1)[1] == by_f1.split()
    assert filled(by_f1, best, "loss", **of_squad)[1] == [best, "loss"]
    assert filled(by_f1, best, "em", **of_squad)[1] == [best, "em", maximize]
    falls = {"loss", "ppl", "rmse", "mae", SCALED}
    for metric in {*launch.Training.metrics, SCALED, *itertools.chain(*METRICS.values())}:
        found = filled("", best, metric, metrics=(metric,))[1]
        assert found == [best, metric, maximize][: 2 + (metric not in falls)]
    for metrics, known in ((launch.Training.metrics, "loss, ppl, accuracy, states"), (("rmse",), "rmse")):
        with pytest.raises(UserError, match=f"{best} auc: choose one of {known}"):
            filled("", best, "auc", metrics=metrics)


def test_a_folder_is_of_one_run(run, save_checkpoint, tmp_path):
    save, command = tmp_path / "save", ["echo", "data"]
    assert run(save, "false", "data")[0] == 1  # fails at once
    assert run(save, *command, lr="2")[0] == 0
    shutil.copy(save_checkpoint("exlm_base"), save / "checkpoint_last.pt")
    (save / "checkpoint_last.pt.17.tmp").touch()  # of a run that was killed
    status, _, error = run(save, *command)
    assert status == 2 and "--lr: there '2', asked '1'" in error
    assert run(save, *command, "--save-interval", "7", lr="2")[0] == 0
    assert [path.name for path in save.glob("*.pt*")] == ["checkpoint_last.pt"]


@pytest.mark.parametrize(
    ("words", "began_with", "trains_with"),
    [
        ("--gpus 1", None, "fused_adamw"),
        ("--cpu", None, "adam"),
        ("--gpus 1 --optimizer adam", None, "adam"),
        ("--gpus 1", "adam", "adam"),
        ("--cpu", "fused_adamw", "fused_adamw"),  # and then on a GPU, where it is as before
        ("--gpus 1 --optimizer sgd", "adam", "sgd"),
    ],
)
def test_the_optimizer_is_the_devices_or_that_of_the_run(words, began_with, trains_with, tmp_path):
    training = pages.resolve("pretrain_text", "exlm", "smoke", "d", tmp_path, "--print", *words.split())
    write_json(tmp_path / files.MANIFEST, {"settings": {"--optimizer": began_with or "adam"}})
    if began_with:  # else it failed at once, and begins again
        (tmp_path / "checkpoint_last.pt").touch()
    launch.choose_optimizer(training)
    assert training.flags.value("--optimizer") == trains_with


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="by prctl")
def test_a_killed_launcher_takes_its_command_with_it(run, tmp_path):
    """Which holds the folder until it has ended."""
    slow_end = "trap 'sleep 1; exit' TERM; echo $$; while true; do sleep 0.1; done"
    words = ["bash", write_file(tmp_path / "slow", slow_end), "", "--", tmp_path, "1"]
    first = subprocess.Popen([sys.executable, "-m", "tests.support.launched", *map(str, words)])
    log, deadline = tmp_path / "train.log", time.monotonic() + 600
    while not (log.exists() and log.read_text()):
        assert time.monotonic() < deadline  # on a busy machine
        time.sleep(0.05)
    first.kill()
    first.wait()
    with pytest.raises(BlockingIOError), (tmp_path / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert run(tmp_path, "true", "data")[0] == 0  # waits for its end


@pytest.mark.slow
def test_an_error_in_bash_is_one_line_and_trains_nothing(tmp_path):
    """Of this clone's modules, whatever PYTHONPATH has besides."""
    for name in ("lib", "fs_plugins"):
        write_file(tmp_path / "others" / name / "__init__.py", "raise SystemExit(3)")
    words = ["bash", ROOT / "scripts/pretrain_text.sh", "exlm", "smoke", tmp_path, tmp_path / "s"]
    environment = {**os.environ, "EXLM_PYTHON": sys.executable, "PYTHONPATH": str(tmp_path / "others")}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"{tmp_path}/dict.txt" in done.stderr and not (tmp_path / "s").exists()
