"""The workflow's targets: what they would run, what is missing or mistyped, and a table to its report."""

import json

import pytest
import report

from tests.scripts.workflow.engine import call, finish
from tests.support import builders

pytest.importorskip("snakemake", reason="needs Snakemake: pip install -e '.[workflow]'")
pytestmark = pytest.mark.slow


def test_what_the_study_would_run(tmp_path):
    words = ("output=out", "updates=7", "seeds=1,2,3", "gpus=2")
    shown = finish(tmp_path, "table4", "figure7", "-n", "-p", "--config", *words)
    assert shown.count("pretrain_text.sh") == 8 * 3
    assert "on_gpu --gpus 2 -- bash" in shown and "gpu=2" in shown
    assert "lib.data.python_docs out/corpus.txt" in shown and "report.py out" in shown
    assert not (tmp_path / "out").exists()


def test_what_is_missing_is_told_before_any_job(tmp_path):
    result = call(tmp_path, "table12", "--config", "output=out", "gpus=0", "data=nowhere")
    shown = result.stdout + result.stderr
    assert result.returncode and "nowhere/dict.txt" in shown and "rule pretrain" not in shown


def test_a_job_that_fails_says_where_its_log_is(tmp_path):
    folder = "out/study/exlm-k2-p0.387/seed-1"
    words = (f"{folder}/train.json", "--config", "output=out", "data=nowhere", "gpus=0")
    assert f"{folder}/log/pretrain.log" in call(tmp_path, *words).stderr
    assert "nowhere" in (tmp_path / folder / "log/pretrain.log").read_text()


def test_a_part_of_the_study_to_its_report(tmp_path):
    """Every measure; with models of two updates, at a learning rate of one's own."""
    builders.text_folder(tmp_path / "data")
    words = ("output=out", "size=smoke", "data=data", "updates=2", "seeds=2", "flags=--lr 1e-3")
    folder = tmp_path / "out/study/exlm-k2-p0.387/seed-2"
    files = [(folder / f"{name}.json").relative_to(tmp_path) for name in ("probe", "entropy")]
    options = ("--cores", "2", "--until", *files, "--config", *words, "sentences=2")
    finish(tmp_path, "table4", "figure12", *options)
    assert json.loads((folder / "manifest.json").read_text())["settings"]["--lr"] == "1e-3"
    shown = report.report(tmp_path / "out").markdown()
    [row] = [line for line in shown.split("Table 4")[1].splitlines() if "k = 2 | 2 | 38.7%" in line]
    assert row.count("| - ") == 0
