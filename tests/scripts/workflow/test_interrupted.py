"""A pre-training of the workflow that is stopped at any moment has the results of one that is not."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.scripts.workflow.engine import call, command, fail
from tests.support.builders import write_file

pytest.importorskip("snakemake", reason="needs Snakemake: pip install -e '.[workflow]'")
pytestmark = pytest.mark.slow

FOLDER = Path("out/study/exlm-k2-p0.387/lr-default/seed-1")
WORDS = (FOLDER / "probe.json", "--config", "output=out", "sentences=2", "updates=20")
WORDS += ("flags=--save-interval-updates 8 --log-interval 2 --validate-interval-updates 12",)
# waits in the process that has the word PROGRAM, before it begins or when it has written checkpoint_last.pt
STOPPED = """
import os, sys, time
def wait():
    open(os.environ["REACHED"], "w").close()
    time.sleep(600)
def replace(source, target):
    original(source, target)
    if str(target).endswith("checkpoint_last.pt"):
        wait()
original = os.replace
if os.environ.get("PROGRAM") in sys.orig_argv:
    if os.environ["MOMENT"] == "before":
        wait()
    os.replace = replace
"""
MOMENTS = {  # what is in the log by then, or a program and whether it has begun
    "in mid-training": ("fairseq_cli.train", "within"),
    "before the first checkpoint": '"num_updates": "2"',
    "before summing up": ("finish", "before"),
    "in summing up": ("finish", "within"),
    "in a measure": ("fs_plugins.measures", "before"),
}
EVERYTHING = os.environ.get("EXLM_TEST_ALL")
EVERY = [(moment, ended_by) for moment in MOMENTS for ended_by in (signal.SIGKILL, signal.SIGTERM)]


def complete(place: Path) -> str:
    """What a run to its end says."""
    done = call(place, *WORDS)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def results(place: Path) -> dict:
    """Those that the report shows, times aside, and the checkpoints that are left to other measures."""
    train = json.loads((place / FOLDER / "train.json").read_text())
    for name in ("seconds", "gpu_seconds", "machine"):
        train.pop(name)
    probe = json.loads((place / FOLDER / "probe.json").read_text())["rows"][0]["results"]
    kept = sorted(path.name for path in (place / FOLDER).glob("*.pt"))
    return {"train": train, "probe": probe, "kept": kept}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The folder of a run that nothing stopped, on the quickstart's corpus."""
    place = tmp_path_factory.mktemp("whole")
    complete(place)
    found = results(place)
    assert [one["update"] for one in found["train"]["curve"]] == list(range(2, 21, 2))
    assert found["kept"] == ["checkpoint_1_16.pt", "checkpoint_last.pt"]
    return place


@pytest.mark.parametrize(("moment", "ended_by"), EVERY if EVERYTHING else EVERY[:2])
def test_a_run_that_is_stopped(moment, ended_by, whole, tmp_path):
    shutil.copytree(whole / "out/data-bin", tmp_path / "out/data-bin")
    write_file(tmp_path / "hook/sitecustomize.py", STOPPED)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(tmp_path / "hook")}
    reached, log, sign = tmp_path / "reached", tmp_path / FOLDER / "train.log", MOMENTS[moment]
    if isinstance(sign, tuple):
        environment |= {"PROGRAM": sign[0], "MOMENT": sign[1], "REACHED": str(reached)}
    with (tmp_path / "engine.log").open("w") as file:
        outputs = {"stdout": file, "stderr": file, "start_new_session": True}
        engine = subprocess.Popen(command(*WORDS), cwd=tmp_path, env=environment, **outputs)
    deadline = time.monotonic() + 600
    while not (reached.exists() or (isinstance(sign, str) and log.exists() and sign in log.read_text())):
        assert engine.poll() is None and time.monotonic() < deadline, (tmp_path / "engine.log").read_text()
        time.sleep(0.05)
    with pytest.raises(BlockingIOError), (tmp_path / "out/lock").open() as held:  # its folder is
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.kill(engine.pid, ended_by)  # its jobs end by themselves
    status, said = engine.wait(), (tmp_path / "engine.log").read_text()
    assert ended_by == signal.SIGKILL or (
        status == 130 and "interrupted: rerun" in said and "Error" not in said
    )
    assert not (tmp_path / FOLDER / "probe.json").exists()
    complete(tmp_path)
    assert results(tmp_path) == results(whole)
    assert ("Loaded checkpoint" in log.read_text()) == (moment == "in mid-training")


def test_a_finished_run_is_not_repeated_and_has_its_settings(whole, tmp_path):
    """Also for a call from elsewhere, where Snakemake remembers nothing."""
    assert "pretrain" not in complete(whole)
    changed = {"output=out": f"output={whole / 'out'}", "updates=20": "updates=21"}
    words = [
        "table4",
        "--config",
        "only=name=exlm-k2-p0.387",
        *(changed.get(word, word) for word in WORDS[2:]),
    ]
    assert "updates: there 20, asked 21" in fail(tmp_path, *words)
