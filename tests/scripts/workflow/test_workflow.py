"""The workflow's targets: what they would run, and one small run of the study that is killed in between."""

import json
import os
import signal
import subprocess
import time

import pytest
from lib.workflow.plan import MEASURES

from tests.scripts.workflow.engine import call, command, complete
from tests.support import builders
from tests.support.builders import write_file

pytest.importorskip("snakemake", reason="needs Snakemake: pip install -e '.[workflow]'")


def fail(tmp_path, *words) -> str:
    """What a call that fails says."""
    result = call(tmp_path, *words)
    assert result.returncode != 0
    return result.stdout + result.stderr


def test_the_commands_of_the_study(tmp_path):
    (tmp_path / "mine.csv").write_text("name,targets,model,k,p\na,mine,exlm,4,0.15\nb,mine,mlm,1,0.15\n")
    words = ("output=out", "updates=7", "only=k=4,p=0.15", "seeds=1,2,3", "rates=1e-3,2e-3", "gpus=2")
    words += ("jobs_per_gpu=3", "flags=--dropout 0.1", "runs_table=mine.csv")
    result = call(tmp_path, "graphs", "figure7", "mine", "-n", "-p", "--config", *words)
    assert result.returncode == 0, result.stderr
    shown = result.stdout + result.stderr
    # one has three rates of its own; a comparison of one's own is a target
    assert shown.count("pretrain_text.sh") == (3 + 4 * 2) + 5 * 2 + 2 * 2
    assert "out/study/a/lr-best/seed-2/joint.json" in shown and "study/b" not in shown
    folder = "out/study/exlm-lattice-p15"
    rate, place = f"$(cat /dev/null {folder}/best.flags)", f"{folder}/lr-best/seed-3"
    options = "--k 4 --p 0.15 --seed 3 --updates 7 --gpus 2 --dropout 0.1 --expand-from-layer 0"
    trials = " ".join(f"{folder}/lr-{lr}/seed-1/joint.json" for lr in ("0.001", "0.002"))
    checkpoint = "out/study/exlm-k4-p0.15/lr-best/seed-2/checkpoint_last.pt"
    for words in (
        f"pretrain_text.sh exlm-lattice smoke out/data-bin {place} {options} {rate} && ",
        "lib.run.on_gpu --gpus 2 --jobs-per-gpu 3 --log",
        "--seed 1 --updates 7 --gpus 2",
        f"lib.workflow.jobs best {folder}/best.json {trials}",
        f"fs_plugins.measures states {place}/checkpoint_*.pt --mask-prob 0.15",
        f"explore.py {checkpoint} 'This is <mask>, and",
        "lib.data.python_docs out/corpus.txt",
        "report.py out",
    ):
        assert words in shown
    assert not (tmp_path / "out").exists()


def test_what_a_target_lacks_is_said_in_one_line(tmp_path):
    shown = fail(tmp_path, "table3", "-n", "--config", "output=out")
    assert "\ntable3 needs glue=FOLDER" in shown and "InputFunctionException" not in shown


@pytest.mark.slow
def test_a_failing_job_stops_no_other_and_its_log_is_shown(tmp_path):
    for name in ("dict.txt", "train.bin", "valid.bin"):
        write_file(tmp_path / "data" / name, "")
    words = ("output=out", "size=small", "data=data", "gpus=0")
    shown = fail(tmp_path, "table12", "--config", *words)
    for key in ("exlm-k4-p0.15/lr-default/seed-1", "repeated-mlm-k1-p0.15/lr-default/seed-1"):
        assert f"exit status 2; the end of out/study/{key}/train.log:" in shown
    assert shown.count("data/dict.txt is empty") == 2
    assert "rerun the same command to resume" in shown


@pytest.mark.slow
def test_a_killed_study_resumes_and_refuses_other_settings(tmp_path):
    """The quickstart's corpus, one model of 60 updates, killed when it has a checkpoint."""
    # 40 updates: the first checkpoint of size smoke
    words = ("figure12", "--config", "output=out", "only=k=4,p=0.15", "sentences=20", "updates=60")
    folder = tmp_path / "out/study/exlm-k4-p0.15/lr-default/seed-1"
    log = folder / "train.log"
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    with (tmp_path / "engine.log").open("w") as file:
        engine = subprocess.Popen(command(*words), cwd=tmp_path, env=environment, stdout=file, stderr=file)
    deadline = time.monotonic() + 1800  # on a busy machine

    def wait_for(path, text: str = "") -> None:
        while not (path.exists() and text in path.read_text()):
            assert engine.poll() is None and time.monotonic() < deadline, (
                tmp_path / "engine.log"
            ).read_text()
            time.sleep(0.1)

    wait_for(tmp_path / "out" / "lock")
    assert "another run is at work in out" in fail(tmp_path, *words)
    wait_for(log, "Saved checkpoint")
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    assert not (folder / "train.json").exists()

    resumed = call(tmp_path, *words)
    assert (folder / "train.json").exists(), resumed.stderr
    assert "Loaded checkpoint" in log.read_text()
    train = json.loads((folder / "train.json").read_text())
    assert train["updates"] == 60 and train["run"]["name"] == "exlm-k4-p0.15"
    [row] = json.loads((folder / "entropy.json").read_text())["rows"]
    assert row["results"][0]["entropy"]["sentences"] == 20
    assert sorted(path.name for path in folder.glob("*.pt")) == ["checkpoint_1_40.pt", "checkpoint_last.pt"]

    again = call(tmp_path, *words)
    assert "pretrain" not in again.stdout + again.stderr
    elsewhere = tmp_path / "elsewhere"  # where Snakemake remembers nothing
    elsewhere.mkdir()
    moved = [word.replace("output=out", f"output={tmp_path / 'out'}") for word in words]
    for place, given in ((tmp_path, words), (elsewhere, moved)):
        assert "updates: there 60, asked 61" in fail(place, *given[:-1], "updates=61")
    assert json.loads((folder / "train.json").read_text()) == train


@pytest.mark.slow
def test_a_comparison_of_molecules_to_its_report(tmp_path):
    """Rates tried, the best one's other seed, every measure; with two models of two updates."""
    builders.smiles_folder(tmp_path / "data")
    rows = "a,mine,exlm-lattice,4,0.3\nb,mine,exlm-no-transitions,4,0.3\n"
    (tmp_path / "mine.csv").write_text(f"name,targets,model,k,p\n{rows}")
    words = ("output=out", "size=smoke", "data=data", "runs_table=mine.csv", "updates=2", "seeds=1,2")
    words += ("rates=1e-3,2e-3", "sentences=2")
    report = complete(tmp_path, "mine", "--cores", "2", "--config", *words)
    for name, own in (("a", {"states"}), ("b", set())):
        lr = float(json.loads((tmp_path / f"out/study/{name}/best.json").read_text())["best"])
        folder = tmp_path / f"out/study/{name}/lr-best/seed-2"
        assert json.loads((folder / "train.json").read_text())["run"]["lr"] == lr
        assert json.loads((folder / "manifest.json").read_text())["settings"]["--lr"] == f"{lr:g}"
        found = {path.stem for path in folder.glob("*.json")}
        assert found & MEASURES.keys() == {"probe", "curve", "joint"} | own
    lines = report.split("### mine")[1].splitlines()
    for model in "ab":
        rows = [line for line in lines if line.startswith((f"| {model} | 30%", f"| 30% | {model} "))]
        assert len(rows) == 2
