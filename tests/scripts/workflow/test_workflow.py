"""The workflow's targets: what they would run, data that are missing, and a comparison to its report."""

import json

import pytest
from lib.workflow.plan import MEASURES

from tests.scripts.workflow.engine import call, complete, fail
from tests.support import builders

pytest.importorskip("snakemake", reason="needs Snakemake: pip install -e '.[workflow]'")


@pytest.mark.slow
def test_the_commands_of_the_study(tmp_path):
    (tmp_path / "mine.csv").write_text("name,targets,model,k,p\na,mine,exlm,4,0.15\nb,mine,mlm,1,0.15\n")
    words = ("output=out", "updates=7", "only=k=4,p=0.15", "seeds=1,2,3", "rates=1e-3,2e-3", "gpus=2")
    words += ("jobs_per_gpu=3", "flags=--dropout 0.1", "runs_table=mine.csv")
    result = call(tmp_path, "graphs", "figure7", "mine", "-n", "-p", "--config", *words)
    assert result.returncode == 0, result.stderr
    shown = result.stdout + result.stderr
    # one has three rates of its own; a comparison of one's own is a target
    assert shown.count("pretrain_text.sh") == (3 + 2) + 2 + 2 * 2
    assert "out/study/a/lr-best/seed-2/joint.json" in shown and "study/b" not in shown
    folder = "out/study/a"
    rate, place = f"$(cat /dev/null {folder}/best.flags)", f"{folder}/lr-best/seed-3"
    options = "--k 4 --p 0.15 --seed 3 --updates 7 --gpus 2 --dropout 0.1"
    trials = " ".join(f"{folder}/lr-{lr}/seed-1/joint.json" for lr in ("0.001", "0.002"))
    checkpoint = "out/study/exlm-k4-p0.15/lr-best/seed-2/checkpoint_last.pt"
    for words in (
        f"pretrain_text.sh exlm smoke out/data-bin {place} {options} {rate} && ",
        "lib.run.on_gpu --gpus 2 --jobs-per-gpu 3 --log",
        "gpu=2, nodes=1",
        "mem_mb=16000",
        "runtime=120",
        "--seed 1 --updates 7 --gpus 2",
        f"lib.workflow.jobs best {folder}/best.json {trials}",
        f"fs_plugins.measures states {place}/checkpoint_*.pt --mask-prob 0.15",
        f"explore.py {checkpoint} 'This is <mask>, and",
        "lib.data.python_docs out/corpus.txt",
        "report.py out",
    ):
        assert words in shown
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_data_that_are_missing_are_told_before_any_job(tmp_path):
    shown = fail(tmp_path, "table12", "--config", "output=out", "size=small", "data=nowhere", "gpus=0")
    assert "nowhere/dict.txt" in shown and "rule pretrain" not in shown


@pytest.mark.slow
def test_a_comparison_of_molecules_to_its_report(tmp_path):
    """Rates tried, the best one's other seed, every measure; with a model of two updates."""
    builders.smiles_folder(tmp_path / "data")
    (tmp_path / "mine.csv").write_text("name,targets,model,k,p\na,mine,exlm,4,0.3\n")
    words = ("output=out", "size=smoke", "data=data", "runs_table=mine.csv", "updates=2", "seeds=1,2")
    words += ("rates=1e-3,2e-3", "sentences=2")
    report = complete(tmp_path, "mine", "--cores", "2", "--config", *words)
    lr = float(json.loads((tmp_path / "out/study/a/best.json").read_text())["best"])
    folder = tmp_path / "out/study/a/lr-best/seed-2"
    assert json.loads((folder / "train.json").read_text())["run"]["lr"] == lr
    assert json.loads((folder / "manifest.json").read_text())["settings"]["--lr"] == f"{lr:g}"
    found = {path.stem for path in folder.glob("*.json")}
    assert found & MEASURES.keys() == {"probe", "curve", "joint", "states"}
    lines = report.split("### mine")[1].splitlines()
    assert len([line for line in lines if line.startswith(("| a | 30%", "| 30% | a "))]) == 2
