"""What goes wrong with SQuAD's files, runs and results: each mistake has one line, and costs no more."""

import errno
import gzip
import json
import math
import os
import shutil
import subprocess

import numpy as np
import pytest
from recipes.corpora.blocks import locked
from recipes.squad import plan

from fs_plugins.data import squad_tokens
from fs_plugins.data.squad import read_squad
from fs_plugins.data.squad_windows import WindowSizes
from scripts import evaluate_squad, predict_squad, prepare_squad
from tests.data.squad_cases import sentence
from tests.data.test_squad import question, squad_json, write
from tests.data.test_squad_answers import table
from tests.integration import commands
from tests.integration.conftest import corpus, one_thread, pretrained  # noqa: F401
from tests.integration.test_squad2 import finetuning, squad_data  # noqa: F401
from tests.scripts.test_finetune_squad import SCRIPT, run
from tests.scripts.test_prepare_squad import bpe_folder, prepare  # noqa: F401

# ---- the files


def test_half_a_character_and_damaged_gzip(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(squad_json(question(), context="In 911, Rollo \ud83d came")))
    with pytest.raises(ValueError, match=r"the 'context' of a paragraph has half a character, \\ud83d"):
        read_squad([path])
    packed = bytearray(gzip.compress(json.dumps(squad_json(question())).encode() * 100))
    packed[30:50] = b"\xff" * 20
    path.write_bytes(packed)
    with pytest.raises(ValueError, match="a.json is not JSON, plain or .gz"):
        read_squad([path])


def test_a_killed_preparation_leaves_no_mixture(tmp_path, bpe_folder, monkeypatch):  # noqa: F811
    """Tokens of a new file are never read with the texts of the one before."""
    gold = write(tmp_path / "gold.json", squad_json(question()))
    assert prepare(tmp_path / "out", bpe_folder, valid=gold) == 0
    split = squad_tokens.load(tmp_path / "out", "valid")
    replace = os.replace

    def killed(source, target):
        replace(source, target)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        squad_tokens.save(split, tmp_path / "out", "valid")
    with pytest.raises(FileNotFoundError, match="valid.json is not there"):
        squad_tokens.load(tmp_path / "out", "valid")


def test_two_at_once_and_a_full_disk(tmp_path, bpe_folder, capsys, monkeypatch):  # noqa: F811
    gold = write(tmp_path / "gold.json", squad_json(question()))
    with locked(tmp_path / "out"):
        assert prepare(tmp_path / "out", bpe_folder, valid=gold) == 2
    assert "another run is at work in" in capsys.readouterr().err

    def full(*arguments):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(prepare_squad.shutil, "copyfile", full)
    assert prepare(tmp_path / "out", bpe_folder, valid=gold) == 2
    assert "no space left on the disk of" in capsys.readouterr().err


# ---- what a fine-tuning is asked for


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--seeds", "1,2,1"], "--seeds '1,2,1': give each seed once"),
        (["--lr", "-1"], "--lr '-1': give a number above 0"),
        (["--lr", "0.0e3"], "--lr '0.0e3': give a number above 0"),
        (["--lr", "fast"], "--lr 'fast': give a number above 0"),
        (["--seed", "3"], "--seed is set by this script"),
        (["--save-dir=elsewhere"], "--save-dir is set by this script"),
        (["--update-freq", "2"], "--update-freq is worked out from --batch"),
        (["--max-epoch=2"], "--max-epoch is set by --epochs"),
    ],
)
def test_flags_that_cannot_be(pretrained, squad_data, flags, says):  # noqa: F811
    result = run(pretrained, squad_data, "save", "--cpu", "--window", 60, *flags, "--print")
    assert result.returncode == 2 and says in result.stderr
    assert result.stderr.count("\n") == 1


def test_data_with_a_colon(pretrained, squad_data, tmp_path):  # noqa: F811
    shutil.copytree(squad_data, tmp_path / "a:b")
    assert "without ':' in its name" in run(pretrained, tmp_path / "a:b", "save", "--print").stderr


def test_a_fine_tuned_model_is_no_pretrained_one(pretrained, squad_data, tmp_path):  # noqa: F811
    commands.train(*finetuning(squad_data, tmp_path, "--max-update", 1, "--finetune-from-model", pretrained))
    sizes = ["--batch-size", "4", "--max-epoch", "1", "--warmup-ratio", "0", "--window-tokens", "60"]
    sizes += ["--doc-stride", "15", "--max-question-tokens", "9", "--max-answer-tokens", "5"]
    for path, message in (
        (tmp_path / "checkpoint_last.pt", r"was fine-tuned \(--task squad2\): give the checkpoint of the"),
        (pretrained, "windows of 5000 tokens are longer than the checkpoint's 2048 positions"),
    ):
        asked = [str(path), str(squad_data), *sizes, "--exact-window", "--window-tokens", "5000"]
        with pytest.raises(ValueError, match=message):
            plan.plan(plan.parser().parse_args(asked))


# ---- the folder of a run


def claim(folder, inputs: str, *words: str, then: str = "true", cwd=None):
    script = f'source "{SCRIPT.parent}/common.sh"; claim_folder "$@"; {then}'
    call = ["bash", "-euc", script, "claim", str(folder), inputs, *words]
    return subprocess.run(call, capture_output=True, text=True, cwd=cwd)


def test_a_folder_is_of_one_run(tmp_path):
    folder = tmp_path / "seed 1"
    assert claim(folder, "a").returncode == 0 and claim(folder, "typo").returncode == 0  # it failed at once
    assert claim(folder, "a").returncode == 0
    (folder / "checkpoint_last.pt").write_text("one epoch")
    assert claim(folder, "a").returncode == 0
    refused = claim(folder, "b")
    assert refused.returncode == 2 and "holds a run of other settings, data or weights" in refused.stderr
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "checkpoint_last.pt").write_text("pre-trained")
    assert "holds checkpoints of another run: choose another" in claim(tmp_path / "other", "a").stderr
    (tmp_path / "file").write_text("")
    assert "cannot be made, or not be written to" in claim(tmp_path / "file", "a").stderr


def test_a_folder_is_of_one_command_called_from_anywhere(tmp_path):
    folder = tmp_path / "my runs" / "seed 1"
    first = ["fairseq_cli.train", "--save-dir", "my runs/seed 1", "--lr", "3e-5"]
    assert claim("my runs/seed 1", "a", *first, cwd=tmp_path).returncode == 0
    (folder / "checkpoint_last.pt").write_text("one epoch")
    assert claim(folder, "a", "fairseq_cli.train", "--save-dir", str(folder), "--lr", "3e-5").returncode == 0
    refused = claim(folder, "a", "fairseq_cli.train", "--save-dir", str(folder), "--lr", "3e-4")
    assert refused.returncode == 2 and "holds a run of other settings" in refused.stderr


@pytest.mark.skipif(shutil.which("flock") is None, reason="needs flock")
def test_a_folder_is_held_by_one_run(tmp_path):
    nested = f'bash -euc \'source "{SCRIPT.parent}/common.sh"; claim_folder "$1" a\' x "$1" 9>&-'
    result = claim(tmp_path / "seed1", "a", then=nested)
    assert result.returncode == 2 and "another run is at work in" in result.stderr


def test_finished_with_other_settings(pretrained, squad_data, tmp_path):  # noqa: F811
    (tmp_path / "seed1").mkdir()
    for name in ("command.txt", "scores.json"):
        write(tmp_path / "seed1" / name, "{}")
    result = run(pretrained, squad_data, tmp_path, "--cpu", "--window", 60)
    assert result.returncode == 2 and "seed1 holds a run of other settings" in result.stderr


# ---- answers and measures


def test_scores_of_something_else_are_not_replaced(tmp_path):
    there = {"split": "valid", "threshold": 0.0, "total": 3, "windows": 4}
    path = write(tmp_path / "scores.json", there)
    predict_squad.check_replaced(path, there)
    predict_squad.check_replaced(tmp_path / "none.json", there)
    for name, value in (("split", "test"), ("threshold", 1.0), ("total", 4), ("windows", 5)):
        with pytest.raises(ValueError, match=f"is of {name} {there[name]}, this of {value}: give another"):
            predict_squad.check_replaced(path, there | {name: value})


def test_what_prediction_refuses(pretrained, squad_data, tmp_path, capsys):  # noqa: F811
    def says(*arguments) -> str:
        assert predict_squad.main([*map(str, arguments), "--device", "cpu"]) == 2
        return capsys.readouterr().err

    assert "--threshold nan: give a number" in says(pretrained, squad_data, "--threshold", "nan")
    (tmp_path / "text.pt").write_text("hi\n")
    assert "text.pt is not a checkpoint of fairseq-train" in says(tmp_path / "text.pt", squad_data)


def test_scores_that_are_no_numbers_are_an_error():
    found = table([sentence(4)], [("q", "w50", 0, [(1, 1)])], WindowSizes(20, 20, 4, 4))
    rows = np.array([[0, 1.0, 2.0, 5, 5]])
    found.add(rows)
    for column in (1, 2):
        broken = rows.copy()
        broken[0, column] = math.nan
        with pytest.raises(ValueError, match="1 windows of .* have scores that are no numbers"):
            found.add(broken)
    rows[0, 2] = -math.inf  # no span: that is allowed
    found.add(rows)


def test_evaluation_of_what_is_no_number(tmp_path, capsys):
    gold = write(tmp_path / "gold.json", squad_json(question("a", [("911", 15)])))
    answers = write(tmp_path / "p.json", {"a": "911"})

    def says(*flags) -> str:
        assert evaluate_squad.main([str(answers), str(gold), *map(str, flags)]) == 2
        return capsys.readouterr().err

    odds = write(tmp_path / "odds.json", {"a": math.nan})
    assert "question a has nan for numbers" in says("-n", odds)
    odds = write(tmp_path / "odds.json", {"a": 2.0})
    assert "--na-prob-thresh nan" in says("-n", odds, "-t", "nan")
    assert "--na-prob-thresh 0.0: give a number, and --na-prob-file" in says("-t", 0)
    assert str(tmp_path) in says("-o", tmp_path)
    assert evaluate_squad.main([str(answers), str(gold), "-n", str(odds)]) == 0
    assert json.loads(capsys.readouterr().out)["exact"] == 0  # above the threshold of 1
