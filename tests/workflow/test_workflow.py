"""The workflow's targets: what they would run, and one small run of the study that is killed in between."""

import json
import os
import signal
import subprocess
import time

import pytest
from lib import folders
from lib.study.results import MEASURES

from tests import builders
from tests.workflow.engine import call, command, complete

pytest.importorskip("snakemake", reason="needs Snakemake: pip install exlm[workflow]")


def dry_run(tmp_path, *words) -> str:
    result = call(tmp_path, *words, "-n", "-p")
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


def test_the_commands_of_the_study(tmp_path):
    shown = dry_run(tmp_path, "study", "--config", "output=out")
    assert shown.count("pretrain_text.sh") == 30
    place = "out/study/exlm-k4-p0.15/lr-default/seed-1"
    assert f"pretrain_text.sh exlm smoke out/data-bin {place} --cpu --k 4 --p 0.15 --seed 1" in shown
    assert shown.count("--updates 240") == 1  # MLM++: twice those of the size
    assert "quickstart_corpus" in shown and "report.py out" in shown
    assert not (tmp_path / "out").exists()
    shown = dry_run(
        tmp_path,
        "figure5",
        "--config",
        "output=out",
        "updates=7",
        "only=k=4,p=0.387",
        "gpus=2",
        "jobs_per_gpu=3",
        "flags=--lr 1e-3",
    )
    assert shown.count("pretrain_text.sh") == 1
    assert "lib.on_gpu --gpus 2 --jobs-per-gpu 3 --log" in shown and "--updates 7 --lr 1e-3" in shown


def test_learning_rates_are_tried_before_they_are_used(tmp_path):
    words = (
        "graphs",
        "--config",
        "output=out",
        "only=p=0.15,k=4",
        "gpus=0",
        "seeds=1,2,3",
        "rates=1e-3,2e-3",
    )
    shown = dry_run(tmp_path, *words)
    assert shown.count("pretrain_text.sh") == (3 + 3 * 2) + 4 * 2
    assert shown.count("--seed 1 --lr ") == 3 + 3 * 2 and "--cpu --k 4 --p 0.15 --seed 1 --lr 0.002" in shown
    assert "lib.study.best out/rates/exlm-lattice-p15.json" in shown
    place = "out/study/exlm-lattice-p15/lr-best/seed-3"
    rate = "$(cat /dev/null out/rates/exlm-lattice-p15.flags)"
    assert f"{place} --cpu --k 4 --p 0.15 --seed 3 --expand-from-layer 0 {rate} && " in shown
    assert f"fs_plugins.analysis states {place}/checkpoint_*.pt --mask-prob 0.15" in shown
    assert shown.count("rule pretrain") and "rates/exlm-k4" not in shown


def test_a_comparison_of_ones_own(tmp_path):
    """In a table of its own, whose target is its name."""
    (tmp_path / "mine.csv").write_text("name,targets,model,k,p\na,mine,exlm,2,0.3\nb,mine,mlm,1,0.3\n")
    shown = dry_run(tmp_path, "mine", "--config", "output=out", "runs_table=mine.csv")
    assert shown.count("pretrain_text.sh") == 2 and "out/study/b/lr-default/seed-1/joint.json" in shown
    result = call(tmp_path, "mine", "-n", "--config", "output=out", "runs_table=other.csv")
    assert result.returncode != 0 and "runs_table: other.csv does not exist" in result.stdout + result.stderr


@pytest.fixture
def inputs(tmp_path):
    """What tables 1 and 3 read, as far as a dry run looks at it."""
    for task in ("RTE", "CoLA"):
        (tmp_path / f"glue/{task}-bin").mkdir(parents=True)
        (tmp_path / f"glue/{task}-bin/summary.json").write_text("{}")
    (tmp_path / "squad").mkdir()
    (tmp_path / "bace").mkdir()
    (tmp_path / "bace" / "molecules.json").write_text("{}")
    (tmp_path / "model.pt").write_bytes(b"weights")
    return ("--config", "output=out", "models=exlm=model.pt,mlm=model.pt", "finetune_seeds=1,2")


def test_the_commands_of_table_3(tmp_path, inputs):
    only = ("glue=glue", "squad=squad", "only=batch=16,epochs=3,warmup=0.06", "init_from=mlm=model.pt")
    shown = dry_run(tmp_path, "table3", *inputs, *only)
    assert shown.count("finetune_glue.sh") == 2 * 2 * (4 + 1)
    folder = "out/table3/exlm/glue/CoLA/lr2e-5-b16-e3-w0.06/seed-1"
    options = "--lr 2e-5 --batch-size 16 --max-epoch 3 --warmup-ratio 0.06 $(cat /dev/null ) --seed 1"
    assert f"finetune_glue.sh CoLA model.pt glue {folder} {options}" in shown
    assert shown.count("--init-from model.pt") == 4 + 1  # the MLM's RTE
    assert "lib.study.best out/table3/exlm/glue/RTE/best.json" in shown
    best = "out/table3/exlm/glue/RTE/best"
    assert (
        f"finetune_glue.sh RTE model.pt glue {best}/seed-2  $(cat /dev/null {best}.flags) --seed 2" in shown
    )
    assert "finetune_squad.sh model.pt squad out/table3/mlm/squad/seed-2 --seed 2" in shown
    lines = dry_run(tmp_path, "table3", *inputs, *only, "gpus=2").splitlines()
    for page, gpus in (("finetune_squad.sh", 2), ("finetune_glue.sh", 1)):  # GLUE trains on one
        found = [line for line in lines if page in line]
        assert found and all(f"{line} ".count(f"--gpus {gpus} ") == 2 for line in found)  # reserved, used


def test_the_commands_of_table_1(tmp_path, inputs):
    shown = dry_run(
        tmp_path, "table1", *inputs, "moleculenet=bace=bace", "max_epoch=2", "gpus=0", "flags=--lr 1"
    )
    assert shown.count("finetune_moleculenet.sh bace model.pt bace") == 3 * 2
    assert "out/table1/untrained/bace/seed-2 --seed 2 --scratch --max-epoch 2 --cpu --lr 1" in shown
    assert shown.count("baseline_moleculenet.py forest bace out/table1/forest/bace/seed-") == 2
    shown = dry_run(tmp_path, "table1", *inputs, "moleculenet=bace=bace", "gpus=2", "baselines=forest,dmpnn")
    assert "on_gpu --gpus 1 --log out/table1/exlm/log/bace-seed-1.log" in shown  # which trains on one
    assert "on_gpu --gpus 1 --log out/table1/dmpnn/log/bace-seed-1.log" in shown
    assert "on_gpu --gpus 0 --log out/table1/forest/log/bace-seed-1.log" in shown


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("study",), "give the folder for the results: --config output="),
        (
            ("study", "--config", "output=out", "size=huge"),
            "size=huge: 'huge' is not one of ['smoke', 'small', 'paper']",
        ),
        (("study", "--config", "output=out", "size=small"), "size=small needs data=FOLDER"),
        (("table4", "--config", "output=out", "only=k=3"), "leaves no run of table4"),
        (("table3", "--config", "output=out"), "table3 needs models="),
        (("table1", "--config", "output=out"), "table1 needs moleculenet="),
    ],
)
def test_what_is_refused(tmp_path, words, message):
    result = call(tmp_path, *words, "-n")
    assert result.returncode != 0 and message in result.stdout + result.stderr


def test_a_failing_job_stops_no_other_and_its_log_is_shown(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    for name in ("dict.txt", "train.bin", "valid.bin"):
        (data / name).touch()
    words = ("output=out", "size=small", "data=data", "gpus=0", "flags=--batch-size many")
    result = call(tmp_path, "table12", "--config", *words)
    shown = result.stdout + result.stderr
    assert result.returncode != 0
    for key in ("exlm-k4-p0.15/lr-default/seed-1", "repeated-mlm-k1-p0.15/lr-default/seed-1"):
        assert f"failed with exit status 2; the end of out/study/{key}/log/pretrain.log:" in shown
    assert shown.count("error: --batch-size 'many': give a whole number") == 2
    assert "rerun the same command to resume" in shown


def test_two_engines_in_one_folder(tmp_path):
    descriptor = folders.lock(tmp_path / "out")
    result = call(tmp_path, "table12", "--config", "output=out")
    assert result.returncode != 0
    assert "another run is at work in out" in result.stdout + result.stderr
    assert not (tmp_path / "out/study").exists()
    os.close(descriptor)


@pytest.mark.slow
def test_a_killed_study_resumes_and_refuses_other_settings(tmp_path):
    """The quickstart's corpus, one model of 60 updates, killed when it has a checkpoint."""
    # 40 updates: the first checkpoint of size smoke
    words = ("figure12", "--config", "output=out", "only=k=4,p=0.15", "sentences=20", "updates=60")
    log, folder = (
        tmp_path / "out/study/exlm-k4-p0.15/lr-default/seed-1/train.log",
        tmp_path / "out/study/exlm-k4-p0.15/lr-default/seed-1",
    )
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    with (tmp_path / "engine.log").open("w") as file:
        engine = subprocess.Popen(command(*words), cwd=tmp_path, env=environment, stdout=file, stderr=file)
    deadline = time.monotonic() + 1800  # on a busy machine
    while not (log.exists() and "Saved checkpoint" in log.read_text()):
        assert engine.poll() is None and time.monotonic() < deadline, (tmp_path / "engine.log").read_text()
        time.sleep(0.1)
    engine.send_signal(signal.SIGKILL)
    engine.wait()
    assert not (folder / "train.json").exists()

    resumed = call(tmp_path, *words)
    assert (folder / "train.json").exists(), resumed.stderr
    assert "Loaded checkpoint" in log.read_text()
    train = json.loads((folder / "train.json").read_text())
    assert train["updates"] == 60 and train["run"]["name"] == "exlm-k4-p0.15"
    assert json.loads((folder / "entropy.json").read_text())["entropy"]["sentences"] == 20
    assert sorted(path.name for path in folder.glob("*.pt")) == ["checkpoint_1_40.pt", "checkpoint_last.pt"]

    again = call(tmp_path, *words)
    assert "pretrain" not in again.stdout + again.stderr
    other = call(tmp_path, *words[:-1], "updates=61")
    assert other.returncode != 0 and "updates: there 60, asked 61" in other.stdout + other.stderr
    (tmp_path / "elsewhere").mkdir()  # where Snakemake remembers nothing
    moved = [word.replace("output=out", f"output={tmp_path / 'out'}") for word in words]
    other = call(tmp_path / "elsewhere", *moved[:-1], "updates=61")
    assert other.returncode != 0 and "updates: there 60, asked 61" in other.stdout + other.stderr
    assert json.loads((folder / "train.json").read_text()) == train


@pytest.mark.slow
def test_a_comparison_of_molecules_to_its_report(tmp_path):
    """Rates tried, the best one's other seed, every measure; with two models of two updates."""
    builders.smiles_folder(tmp_path / "data")
    rows = "a,mine,exlm-lattice,4,0.3\nb,mine,exlm-no-transitions,4,0.3\n"
    (tmp_path / "mine.csv").write_text(f"name,targets,model,k,p\n{rows}")
    words = (
        "output=out size=smoke data=data runs_table=mine.csv updates=2 seeds=1,2 rates=1e-3,2e-3 sentences=2"
    )
    report = complete(tmp_path, "mine", "--cores", "2", "--config", *words.split())
    for name, own in (("a", {"states"}), ("b", set())):
        lr = json.loads((tmp_path / f"out/rates/{name}.json").read_text())["lr"]
        folder = tmp_path / f"out/study/{name}/lr-best/seed-2"
        assert json.loads((folder / "train.json").read_text())["run"]["lr"] == lr
        assert json.loads((folder / "manifest.json").read_text())["settings"]["--lr"] == f"{lr:g}"
        found = {path.stem for path in folder.glob("*.json")}
        assert found & set(MEASURES.index) == {"probe", "curve", "joint"} | own
    lines = report.split("### Comparison")[1].splitlines()
    for model in "ab":
        rows = [line for line in lines if line.startswith(f"| {model} | 30%")]
        assert len(rows) == 2 and not [row for row in rows if "not run" in row or "unfinished" in row]
