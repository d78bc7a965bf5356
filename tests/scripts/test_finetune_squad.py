"""The shell script: flags from the checkpoint and the data, resuming, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from recipes.squad.summary import table

from tests.integration import commands
from tests.integration.conftest import corpus, one_thread, pretrained  # noqa: F401
from tests.integration.test_squad2 import squad_data  # noqa: F401

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "finetune_squad.sh"


def run(*arguments):
    # the flags that are passed on come after those of the script
    environment = {**os.environ, "EXLM_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"}
    call = ["bash", str(SCRIPT), *map(str, arguments)]
    return subprocess.run(call, capture_output=True, text=True, env=environment)


def last(words, flag):
    return words[len(words) - words[::-1].index(flag)]


def test_flags_of_model_data_and_table_11(pretrained, squad_data):  # noqa: F811
    result = run(
        pretrained, squad_data, "save", "--cpu", "--window", 60, "--batch", 5, "--seeds", "3,4", "--print"
    )
    assert result.returncode == 0, result.stderr
    first, second = (line.split() for line in result.stdout.splitlines())
    expected = {
        **{
            "--arch": "exlm_tiny",
            "--encoder-layers": "1",
            "--encoder-embed-dim": "32",
            "--ext-state-num": "4",
        },
        **{"--max-positions": "2048", "--window-tokens": "60", "--doc-stride": "15", "--lr": "3e-5"},
        **{"--batch-size": "5", "--max-epoch": "3", "--seed": "3", "--save-dir": "save/seed3"},
        # 12 questions, a window each: 3 updates of 5 an epoch; 6% of 9
        **{"--total-num-update": "9", "--warmup-updates": "1", "--finetune-from-model": str(pretrained)},
    }
    assert {flag: last(first, flag) for flag in expected} == expected
    assert last(second, "--seed") == "4" and "--warmup-ratio" not in first and "--fp16" not in first


def test_the_batch_is_split_over_gpus_and_steps(pretrained, squad_data):  # noqa: F811
    result = run(
        pretrained, squad_data, "save", "--gpus", 2, "--window", 60, "--tokens-per-gpu", 300, "--print"
    )
    words = result.stdout.split()
    workers, share, steps = (
        int(last(words, f)) for f in ("--distributed-world-size", "--batch-size", "--update-freq")
    )
    assert workers * share * steps == 32 and share * 60 <= 300 and "--find-unused-parameters" in words


@pytest.mark.slow
def test_trains_predicts_and_does_not_repeat(pretrained, squad_data, tmp_path):  # noqa: F811
    arguments = [pretrained, squad_data, tmp_path, "--cpu", "--window", 60, "--epochs", 1, "--lr", "1e-3"]
    result = run(*arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    folder = tmp_path / "seed1"
    scores = json.loads((folder / "scores.json").read_text())
    logged = commands.parse((folder / "train.log").read_text()).stats["valid"][-1]
    assert float(logged["valid_f1"]) == pytest.approx(scores["f1"], abs=0.006)
    assert float(logged["valid_em_swept"]) == pytest.approx(scores["best_exact"], abs=0.006)
    assert len(json.loads((folder / "predictions.json").read_text())) == scores["total"] == 12
    before = (folder / "train.log").read_text()
    again = run(*arguments)
    assert again.returncode == 0 and "| median" not in again.stdout and f"{scores['f1']:.2f}" in again.stdout
    assert (folder / "train.log").read_text() == before


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--seeds", "1;2"], "--seeds '1;2': give whole numbers"),
        (["--batch", "0"], "--batch '0': give a whole number"),
        (["--stride", "8"], "--stride is given together with --window"),
        (["--lr"], "--lr needs a value"),
        ([], "model.pt is cut short, or no checkpoint"),
    ],
)
def test_what_is_refused_at_once(tmp_path, flags, says):
    for name in ("dict.txt", "train.npz", "train.json", "valid.npz", "valid.json", "model.pt"):
        (tmp_path / name).write_text("")
    result = run(tmp_path / "model.pt", tmp_path, "save", "--print", *flags)
    assert result.returncode == 2 and says in result.stderr
    assert "there is no checkpoint none.pt" in run("none.pt", tmp_path, "save").stderr
    (tmp_path / "train.npz").unlink()
    assert "train.npz is not there: DATA is a folder" in run(tmp_path / "model.pt", tmp_path, "save").stderr
    assert run("--help").stdout.startswith("Fine-tunes a pre-trained model on SQuAD 2.0")


def test_windows_of_the_pretraining_may_be_too_short(pretrained, squad_data):  # noqa: F811
    result = run(pretrained, squad_data, "save", "--cpu", "--print")
    assert result.returncode == 2
    assert "question q0 of 3 tokens leaves 25 of the 32 tokens of a window" in result.stderr


def test_medians():
    runs = {name: {"exact": value, "f1": value + 1} for name, value in (("a", 1), ("b", 9), ("c", 4))}
    lines = table(runs)
    assert lines[-1] == "| median | 4.00 | 5.00 | - | - | - | - |"
    assert len(table({"a": runs["a"]})) == 3
