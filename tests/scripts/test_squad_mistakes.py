"""What goes wrong with SQuAD's files, runs and results: each mistake has one line, and costs no more."""

import errno
import gzip
import json
import math
import os

import numpy as np
import pytest
from recipes.corpora.blocks import locked

from fs_plugins.data import squad_tokens
from fs_plugins.data.squad import read_squad
from fs_plugins.data.squad_windows import WindowSizes
from scripts import evaluate_squad, predict_squad, prepare_squad
from tests.data.squad_cases import sentence
from tests.data.test_squad import question, squad_json, write
from tests.data.test_squad_answers import table
from tests.integration.conftest import corpus, one_thread, pretrained, squad_data  # noqa: F401
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
