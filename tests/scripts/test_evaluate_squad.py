"""The evaluation script, against what a person works out."""

import json
import math

import pytest

from scripts import evaluate_squad
from tests.data.test_squad import question, squad_json, write


@pytest.fixture
def files(tmp_path):
    gold = squad_json(
        question("a", [("911", 15), ("in 911", 12)]), question("b", [("Rollo", 0)]), question("c", ())
    )
    return write(tmp_path / "gold.json", gold), write(
        tmp_path / "p.json", {"a": "In 911!", "b": "", "c": "son"}
    )


def test_predictions_and_gold_in_either_order(files, tmp_path, capsys):
    gold, predictions = files
    out = tmp_path / "eval.json"
    assert evaluate_squad.main([str(predictions), str(gold), "-o", str(out)]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result == json.loads(out.read_text())
    assert result["exact"] == pytest.approx(100 / 3) and result["f1"] == pytest.approx(100 / 3)
    assert (result["HasAns_exact"], result["NoAns_exact"], result["total"]) == (50, 0, 3)
    assert evaluate_squad.main([str(gold), str(predictions)]) == 0
    assert json.loads(capsys.readouterr().out) == result


def test_null_odds(files, tmp_path, capsys):
    gold, predictions = files
    odds = write(tmp_path / "odds.json", {"a": 0.1, "b": 0.2, "c": 3})
    assert evaluate_squad.main([str(predictions), str(gold), "-n", str(odds), "-t", "0"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["exact"] == pytest.approx(100 / 3)  # only c, as no answer is given at all
    assert result["best_exact"] == pytest.approx(200 / 3) and result["best_exact_thresh"] == 0.1


def test_what_is_refused(files, tmp_path, capsys):
    gold, predictions = files

    def says(predictions, *flags):
        assert evaluate_squad.main([str(predictions), str(gold), *map(str, flags)]) == 2
        return capsys.readouterr().err

    assert "1 of 3 questions have no prediction: c" in says(write(tmp_path / "x.json", {"a": "", "b": ""}))
    assert "question a has 7 for answers" in says(write(tmp_path / "x.json", {"a": 7}))
    assert "is not JSON" in says(write(tmp_path / "x.json", "{"))
    assert "none.json: No such file" in says(tmp_path / "none.json")
    assert "3 of 3 questions have no null odds" in says(predictions, "-n", write(tmp_path / "o.json", {}))


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
