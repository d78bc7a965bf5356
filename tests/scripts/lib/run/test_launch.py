"""A training has a folder of its own, until the last of its commands ends; devices; what users are told."""

import fcntl
import json
import os
import signal
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
from lib.run.supervise import supervise

from tests.support import pages
from tests.support.full_disk import at_each_write

SCRIPTS = ["pretrain_text", "pretrain_smiles", "finetune_glue", "finetune_squad", "finetune_moleculenet"]
CLUSTER = {"RANK": "13", "WORLD_SIZE": "16", "LOCAL_RANK": "5", "MASTER_ADDR": "node1", "MASTER_PORT": "2950"}
# launch(SCRIPT, ...) as a process, of a training with --lr LR
PROGRAM = """
import sys
from argparse import Namespace
from pathlib import Path
from pathlib import Path
from lib.command_line import Flags, script
from lib.run.launch import Training, launch

def resolve(words):
    save, lr = words
    args = Namespace(save=Path(save), user=Flags(), print=False)
    flags = Flags.of(f"--lr {lr} --log-interval 1")
    return Training(args, "data", flags, ["--lr", lr], {"seed": 1})

sys.exit(script(launch)("script.sh", resolve, sys.argv[1:]))
"""


def call(save, *template, lr="1") -> list[str]:
    return [sys.executable, "-c", PROGRAM, *template, "--", str(save), lr]


def run(*words, environment=None, **more) -> subprocess.CompletedProcess:
    environment = {**os.environ, **(environment or {})}
    return subprocess.run(call(*words, **more), capture_output=True, text=True, env=environment)


def wait_for(path) -> str:
    deadline = time.monotonic() + 30
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return path.read_text()


def hold_at_once(folder) -> None:
    with (folder / "lock").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.fixture
def script(tmp_path):
    """script(CODE) -> the words of a command."""

    def make(code: str, program="bash") -> list[str]:
        path = tmp_path / f"script-{len(list(tmp_path.iterdir()))}"
        path.write_text(code)
        return [program, str(path)]

    return make


def test_commands_run_one_after_the_other_until_one_fails(script, tmp_path):
    save = tmp_path / "a b"
    one = [*script("echo $1 $2; echo two >&2"), "@evaluation"]
    for status in (3, 4):
        done = run(save, *one, "then", *script(f"echo three; exit {status}"), "then", "echo", "never")
        assert (done.returncode, done.stdout) == (status, "--lr 1\ntwo\nthree\n")
    assert (save / "train.log").read_text() == 2 * "--lr 1\ntwo\nthree\n"
    manifest = json.loads((save / files.MANIFEST).read_text())
    assert manifest["command"] == ["script.sh", str(save), "1"] and manifest["runs"] == [
        *one[:2],
        "--lr",
        "1",
    ]
    assert manifest["settings"] == {"seed": 1, "--lr": "1"}
    assert manifest["versions"]["python"] and manifest["commit"]


def test_a_log_on_a_disk_that_is_full_for_a_moment(tmp_path):
    command = ["bash", "-c", "for i in {1..9}; do echo line $i; sleep 0.02; done; exit 3"]
    for at, error in at_each_write(tmp_path, lambda at: supervise(command, tmp_path / f"{at}.log")):
        assert error is None
        assert (tmp_path / f"{at}.log").read_text() == "".join(f"line {i}\n" for i in range(1, 10))
        if at == 3:
            break


def test_words_are_filled_in_and_a_flag_is_given_once(tmp_path):
    training = launch.Training(Namespace(save=tmp_path), "d", Flags.of("--lr 2 --cpu"))
    template = "fairseq-train @data --save-dir @save --seed 1 --lr 1 @evaluation --seed 2 @flags"
    words, flags = training.fill_training(template.split(" "))
    assert words == f"fairseq-train d --save-dir {tmp_path} --seed 2 --lr 2 --cpu".split()
    assert training.fill(["rm", "@save/a.pt"]) == ["rm", f"{tmp_path}/a.pt"]
    assert training.all_settings(flags) == {"--lr": "2", "--seed": "2"}
    training.free = ("--lr",)
    assert training.all_settings(flags) == {"--seed": "2"}


def test_values_are_not_words_of_the_command(tmp_path):
    """Whatever a flag's value begins with; an interpolation would be followed by fairseq."""
    training = launch.Training(Namespace(save=tmp_path), "d", Flags({"--a": ("--lr", "--b=1")}))
    _, flags = training.fill_training(["fairseq-train", "@data", "--lr", "1", "@flags"])
    assert flags == {"--lr": ("1",), "--a": ("--lr", "--b=1")}
    for place in ("data", "save"):
        training = launch.Training(Namespace(save=Path("s")), "d", Flags())
        setattr(training if place == "data" else training.args, place, "x${oc.env:HOME}")
        with pytest.raises(UserError, match=r"x\$\{oc.env:HOME\}"):
            training.fill_training(["fairseq-train", "@data", "--save-dir", "@save", "@flags"])


def test_a_folder_is_of_one_run(tmp_path):
    save, command = tmp_path / "save", ["test", "-n", "@evaluation"]
    assert run(save, *command).returncode == 2  # fails at once
    assert run(save, "echo", "data", "@evaluation", lr="2").returncode == 0
    (save / "checkpoint_last.pt").touch()
    (save / "checkpoint_last.pt.17.tmp").touch()  # of a run that was killed
    refused = run(save, *command)
    assert refused.returncode == 2 and "--lr: there '2', asked '1'" in refused.stderr
    assert run(save, "echo", "data", "@evaluation", "--save-interval", "7", lr="2").returncode == 0
    assert [path.name for path in save.glob("*.pt*")] == ["checkpoint_last.pt"]


def test_a_command_that_a_signal_ends_is_the_last(script, tmp_path):
    done = run(tmp_path, *script("kill -9 $$"), "then", "echo", "never")
    assert (done.returncode, done.stdout, done.stderr) == (128 + 9, "", "")


def test_of_several_processes_the_first_acts_for_all(tmp_path):
    done = run(tmp_path / "save", "echo", "trains", "then", "echo", "evaluates", environment={"RANK": "1"})
    assert (done.returncode, done.stdout) == (0, "trains\n") and not (tmp_path / "save").exists()


def test_a_folder_is_held_until_the_last_command_ends(script, tmp_path):
    command = call(tmp_path, "true", "then", *script("echo started; exec sleep 60"))
    first = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for(tmp_path / "train.log")
    with pytest.raises(BlockingIOError):
        hold_at_once(tmp_path)
    first.send_signal(signal.SIGTERM)
    assert "interrupted: rerun the same command" in first.communicate(timeout=20)[1]
    assert first.returncode == 130
    hold_at_once(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="by prctl")
def test_a_killed_launcher_takes_its_command_with_it(script, tmp_path):
    slow_end = "trap 'sleep 1; exit' TERM; echo $$; while true; do sleep 0.1; done"
    first = subprocess.Popen(call(tmp_path, *script(slow_end)))
    wait_for(tmp_path / "train.log")
    first.kill()
    first.wait()
    with pytest.raises(BlockingIOError):
        hold_at_once(tmp_path)
    assert run(tmp_path, "true").returncode == 0  # waits for its end


def bash(script: str, *words):
    environment = {**os.environ, "EXLM_PYTHON": sys.executable}
    command = ["bash", str(ROOT / "scripts" / f"{script}.sh"), *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("script", SCRIPTS)
def test_help_and_a_mistake(script):
    done = bash(script, "--help")
    assert done.returncode == 0 and done.stderr == ""
    assert done.stdout.startswith(f"usage: {script}.sh ") and f"SAVE/{files.MANIFEST}" in done.stdout
    done = bash(script, "one")
    assert done.returncode == 2 and "the following arguments are required" in done.stderr


def test_print_shows_the_cost_and_the_command(tmp_path):
    done = bash("pretrain_text", "exlm", "base", tmp_path / "my data", tmp_path / "s", "--gpus", 2, "--print")
    assert done.returncode == 0 and not (tmp_path / "s").exists()
    *cost, command = done.stdout.splitlines()
    assert cost[0] == "parameters        128,258,661" and any("A100" in line for line in cost)
    assert command.startswith("fairseq-train ") and f"'{tmp_path}/my data'" in command


def test_an_error_is_one_line_and_trains_nothing(tmp_path):
    done = bash("pretrain_text", "exlm", "smoke", tmp_path, tmp_path / "save")
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
    assert "dict.txt does not exist" in done.stderr and not (tmp_path / "save").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--lerning-rate", "1e-4"], "unknown flag --lerning-rate: did you mean --lr?"),
        (["--dropuot", "0.2", "--cpu"], "unknown flag --dropuot: did you mean --dropout?"),
        (["--gpu", "1"], "unknown flag --gpu: did you mean --gpus?"),
        (["--state-grph=dag"], "unknown flag --state-grph: did you mean --state-graph?"),
        (["--lr", "fast"], "fairseq-train: argument --lr: invalid"),
        (["--seed", "2", "--lr", "3e-5x"], "fairseq-train: the value of --lr 3e-5x is none"),
        (["--warmup", "5"], "unknown flag --warmup: did you mean --warmup-updates?"),
        (["--epochs", "3"], "unknown flag --epochs: did you mean --max-epoch?"),
        (["--optimizer", "adamm"], "fairseq-train: argument --optimizer: invalid choice: 'adamm'"),
    ],
)
def test_a_flag_that_fairseq_train_does_not_know(toy_inputs, tmp_path, words, says):
    called = ("pretrain_text", "exlm", "smoke", toy_inputs / "text", tmp_path / "save", *words)
    for more in ([], ["--print"]):
        with pytest.raises(UserError) as error:
            pages.run(*called, *more)
        assert str(error.value).startswith(says) and "\n" not in str(error.value)
    assert not (tmp_path / "save").exists()


def test_known_flags_are_printed_for_other_machines(toy_inputs, tmp_path):
    words = ("exlm", "smoke", toy_inputs / "text", tmp_path / "save", "--gpus", 2, "--num-workers", 1)
    assert "--fp16 " in pages.run("pretrain_text", *words, "--print")


def test_gpus_that_are_not_there(toy_inputs, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    words = ("pretrain_text", "exlm", "smoke", toy_inputs / "text", tmp_path / "save")
    for asked, message in (
        (("--gpus", 2), "--gpus 2: PyTorch finds 1"),
        (("--cpu", "--fp16"), "--fp16 needs"),
    ):
        with pytest.raises(UserError, match=message):
            pages.run(*words, *asked)
    assert pages.run(*words, "--gpus", 1, execute=lambda *_: 0) == ""


def devices(environment, gpus=None, precision=None):
    return launch.devices(Namespace(gpus=gpus, precision=precision), environment)


@pytest.mark.parametrize(
    ("visible", "gpus"), [("", 0), ("-1", 0), ("0,1", 2), ("0,-1,1", 1), ("GPU-8932f937", 1)]
)
def test_gpus_are_those_that_cuda_sees(visible, gpus):
    workers, flags = devices({"CUDA_VISIBLE_DEVICES": visible})
    assert (workers, flags.value("--distributed-world-size")) == (max(1, gpus), str(max(1, gpus)))
    assert ("--fp16" in flags, "--cpu" in flags) == (gpus > 0, gpus == 0)


def test_one_of_many_processes():
    _, flags = devices(CLUSTER, 8)
    assert flags.value("--distributed-init-method") == "tcp://node1:2950"
    assert (flags.value("--distributed-rank"), flags.value("--distributed-world-size")) == ("13", "16")
    assert "--distributed-no-spawn" in flags and flags.value("--device-id") == "5"
    # a scheduler may show each process its own GPU alone
    assert devices(CLUSTER, 1)[1].value("--device-id") == "0"
    on_cpus = devices(CLUSTER, 0)[1]
    assert on_cpus.value("--distributed-backend") == "gloo" and "--device-id" not in on_cpus
    assert "--distributed-rank" not in devices({**CLUSTER, "RANK": "0", "WORLD_SIZE": "1"}, 1)[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"MASTER_ADDR": ""}, "RANK or WORLD_SIZE is set, but not MASTER_ADDR"),
        ({"RANK": ""}, "RANK or WORLD_SIZE is set, but not RANK"),
    ],
)
def test_an_environment_that_cannot_be(change, message):
    with pytest.raises(UserError, match=message):
        devices(CLUSTER | change, 8)


@pytest.mark.parametrize(
    ("gpus", "precision", "expected"),
    [(1, None, "--fp16"), (1, "bf16", "--bf16"), (1, "fp32", None), (0, None, None), (0, "bf16", "--bf16")],
)
def test_one_precision(gpus, precision, expected):
    """fairseq takes --fp16 and --bf16 together, and trains with neither's rules."""
    _, flags = devices({}, gpus, precision)
    assert {"--fp16", "--bf16"} & flags.keys() == ({expected} if expected else set())
    assert ("--fp16-scale-window" in flags) == (expected == "--fp16")
