"""The workflow's targets: what they would run, data that are missing, and a table to its report."""

import json

import pytest

from tests.scripts.workflow.engine import call, complete, fail
from tests.support import builders

pytest.importorskip("snakemake", reason="needs Snakemake: pip install -e '.[workflow]'")


@pytest.mark.slow
def test_the_commands_of_the_study(tmp_path):
    words = ("output=out", "updates=7", "only=k=4,p=0.15", "seeds=1,2,3", "rates=1e-3,2e-3", "gpus=2")
    words += ("jobs_per_gpu=3", "flags=--dropout 0.1")
    result = call(tmp_path, "table4", "figure7", "figure12", "-n", "-p", "--config", *words)
    assert result.returncode == 0, result.stderr
    shown = result.stdout + result.stderr
    assert shown.count("pretrain_text.sh") == 2 + 2  # of the rates, and of the other seeds
    folder = "out/study/exlm-k4-p0.15"
    rate, place = f"$(cat /dev/null {folder}/best.flags)", f"{folder}/lr-best/seed-3"
    options = "--k 4 --p 0.15 --seed 3 --updates 7 --gpus 2 --dropout 0.1"
    trials = " ".join(f"{folder}/lr-{lr}/seed-1/probe.json" for lr in ("0.001", "0.002"))
    for words in (
        f"pretrain_text.sh exlm smoke out/data-bin {place} {options} {rate} && ",
        "lib.run.on_gpu --gpus 2 --jobs-per-gpu 3 --log",
        "gpu=2, nodes=1",
        "mem_mb=16000",
        "runtime=120",
        "--seed 1 --updates 7 --gpus 2",
        f"lib.workflow.jobs best {folder}/best.json {trials}",
        f"fs_plugins.measures entropy {place}/checkpoint_last.pt --max-sentences 500",
        f"explore.py {folder}/lr-best/seed-2/checkpoint_last.pt 'This is <mask>, and",
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
def test_a_table_of_the_study_to_its_report(tmp_path):
    """Rates tried, the best one's other seed, every measure; with models of two updates."""
    builders.text_folder(tmp_path / "data")
    words = ("output=out", "size=smoke", "data=data", "updates=2", "seeds=1,2", "only=name=exlm-k2-p0.387")
    words += ("rates=1e-3,2e-3", "sentences=2")
    report = complete(tmp_path, "table4", "figure12", "--cores", "2", "--config", *words)
    folder = tmp_path / "out/study/exlm-k2-p0.387"
    lr = float(json.loads((folder / "best.json").read_text())["best"])
    folder /= "lr-best/seed-2"
    assert json.loads((folder / "train.json").read_text())["run"]["lr"] == lr
    assert json.loads((folder / "manifest.json").read_text())["settings"]["--lr"] == f"{lr:g}"
    [row] = [line for line in report.split("Table 4")[1].splitlines() if "k = 2 | 2 | 38.7%" in line]
    assert row.count("| - ") == 0
