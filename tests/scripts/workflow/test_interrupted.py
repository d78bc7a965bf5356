"""A pre-training of the workflow that is stopped at any moment has the results of one that is not."""

import json
import os
import shutil
import signal
import subprocess
import time
from functools import partial
from pathlib import Path

import prepare_smiles
import pytest

from tests.scripts.workflow.engine import call, command
from tests.support.builders import write_file

pytest.importorskip("snakemake", reason="needs Snakemake: pip install -e '.[workflow]'")
pytestmark = pytest.mark.slow

WORDS = ("mine", "--config", "output=out", "size=smoke", "data=data", "runs_table=mine.csv", "updates=24")
WORDS += ("sentences=2", "flags=--save-interval-updates 8 --log-interval 2 --validate-interval-updates 12")
FOLDER = Path("out/study/a/lr-default/seed-1")
# waits in the process of which one word is PROGRAM, before it begins or after its first file has its name
STOPPED = """
import os, sys, time
def wait(*args):
    open(os.environ["REACHED"], "w").close()
    time.sleep(600)
if os.environ.get("PROGRAM") in sys.orig_argv:
    if os.environ["MOMENT"] == "before":
        wait()
    else:
        original = os.replace
        os.replace = lambda *args: (original(*args), wait())
"""
MOMENTS = {  # what is in the log by then, or a program and whether it has begun
    "before the first checkpoint": '"train_num_updates": "2"',
    "in mid-training": ("fairseq_cli.train", "within"),
    "before summing up": ("finish", "before"),
    "in summing up": ("finish", "within"),
    "in a measure": ("fs_plugins.measures", "before"),
}


def results(place: Path) -> dict:
    train = json.loads((place / FOLDER / "train.json").read_text())
    for name in ("seconds", "gpu_seconds", "machine"):
        train.pop(name)
    joint = json.loads((place / FOLDER / "joint.json").read_text())["rows"][0]["results"]
    report = (place / "out/report.md").read_text().split("### mine")[1]
    return {"train": train, "joint": joint, "report": report}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """A folder with data, and the results of a run that nothing stopped."""
    place = tmp_path_factory.mktemp("whole")
    # more than the 8 samples whose masks fairseq caches from epoch to epoch
    for name, start in (("train", ""), ("valid", "C=")):
        rows = (f"{start}{'C' * i}{end}\n" for i in range(3, 18) for end in "NO")
        write_file(place / f"{name}.smi", "".join(rows))
    argv = [place / "data", "--train", place / "train.smi", "--valid", place / "valid.smi", "--workers", "1"]
    assert prepare_smiles.main([*map(str, argv)]) == 0
    write_file(place / "mine.csv", "name,targets,model,k,p\na,mine,exlm,2,0.3\n")
    result = call(place, *WORDS)
    assert result.returncode == 0, result.stderr
    assert [one["update"] for one in results(place)["train"]["curve"]] == list(range(2, 25, 2))
    return place


EVERY = [(moment, ended_by) for moment in MOMENTS for ended_by in (signal.SIGINT, signal.SIGKILL)]
ALL = os.environ.get("EXLM_TEST_ALL")


@pytest.mark.parametrize(("moment", "ended_by"), EVERY if ALL else [EVERY[3], EVERY[4], EVERY[7]])
def test_a_run_that_is_stopped(moment, ended_by, inputs, tmp_path):
    for name in ("data", "mine.csv"):
        source = inputs / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, tmp_path / name)
    write_file(tmp_path / "hook/sitecustomize.py", STOPPED)
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(tmp_path / "hook")}
    reached, log, sign = tmp_path / "reached", tmp_path / FOLDER / "train.log", MOMENTS[moment]
    if isinstance(sign, tuple):
        environment |= {"PROGRAM": sign[0], "MOMENT": sign[1], "REACHED": str(reached)}
    with (tmp_path / "engine.log").open("w") as file:
        # SIGINT may be ignored where the tests run in the background
        heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        outputs = {"stdout": file, "stderr": file, "start_new_session": True, "preexec_fn": heard}
        engine = subprocess.Popen(command(*WORDS), cwd=tmp_path, env=environment, **outputs)
    deadline = time.monotonic() + 300
    while not (reached.exists() or (isinstance(sign, str) and log.exists() and sign in log.read_text())):
        assert engine.poll() is None and time.monotonic() < deadline, (tmp_path / "engine.log").read_text()
        time.sleep(0.05)
    os.killpg(engine.pid, ended_by)  # as a terminal does
    engine.wait()
    assert not (tmp_path / FOLDER / "joint.json").exists()

    resumed = call(tmp_path, *WORDS)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    assert results(tmp_path) == results(inputs)
