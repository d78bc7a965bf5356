"""A pre-training of the workflow that is stopped at any moment has the results of one that is not."""

import fcntl
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.scripts.workflow.engine import command, finish
from tests.support.builders import write_file

pytest.importorskip("snakemake", reason="needs Snakemake: pip install -e '.[workflow]'")
pytestmark = pytest.mark.slow

FOLDER = Path("out/study/exlm-k2-p0.387/seed-1")
WORDS = (FOLDER / "probe.json", "--config", "output=out", "sentences=2", "updates=20")
WORDS += ("flags=--save-interval-updates 8 --log-interval 2 --validate-interval-updates 12",)
STOPS = [("fairseq_cli.train", signal.SIGKILL), ("fairseq_cli.train", signal.SIGTERM)]
STOPS += [("finish", signal.SIGKILL)]
# waits in the process that has the word PROGRAM, when it has written checkpoint_last.pt
STOPPED = """
import os, sys, time
def replace(source, target):
    original(source, target)
    if str(target).endswith("checkpoint_last.pt"):
        open(os.environ["REACHED"], "w").close()
        time.sleep(600)
original = os.replace
if os.environ.get("PROGRAM") in sys.orig_argv:
    os.replace = replace
"""


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
    finish(place, *WORDS)
    assert "pretrain" not in finish(place, *WORDS)  # it is not repeated
    found = results(place)
    assert [one["update"] for one in found["train"]["curve"]] == list(range(2, 21, 2))
    assert found["kept"] == ["checkpoint_1_16.pt", "checkpoint_last.pt"]
    return place


@pytest.mark.parametrize(("program", "ended_by"), STOPS)
def test_a_run_that_is_stopped(program, ended_by, whole, tmp_path):
    """In mid-training, and in summing up."""
    shutil.copytree(whole / "out/data-bin", tmp_path / "out/data-bin")
    write_file(tmp_path / "hook/sitecustomize.py", STOPPED)
    reached = tmp_path / "reached"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(tmp_path / "hook")}
    environment |= {"PROGRAM": program, "REACHED": str(reached)}
    with (tmp_path / "engine.log").open("w") as file:
        outputs = {"stdout": file, "stderr": file, "start_new_session": True}
        engine = subprocess.Popen(command(*WORDS), cwd=tmp_path, env=environment, **outputs)
    deadline = time.monotonic() + 600
    while not reached.exists():
        assert engine.poll() is None and time.monotonic() < deadline, (tmp_path / "engine.log").read_text()
        time.sleep(0.05)
    with pytest.raises(BlockingIOError), (tmp_path / "out/lock").open() as held:  # its folder is
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    processes = [psutil.Process(engine.pid)]
    if ended_by == signal.SIGKILL:  # of all at once, as if the machine stopped; SIGTERM ends the jobs, too
        processes += processes[0].children(recursive=True)
    for process in processes:
        process.send_signal(ended_by)
    status, said = engine.wait(60), (tmp_path / "engine.log").read_text()
    if ended_by == signal.SIGTERM:
        assert status == 130 and "interrupted: rerun" in said and "Error" not in said
    assert not (tmp_path / FOLDER / "probe.json").exists()
    finish(tmp_path, *WORDS)
    assert results(tmp_path) == results(whole)
    assert "Loaded checkpoint" in (tmp_path / FOLDER / "train.log").read_text()
