"""Reading SQuAD files, what is wrong with them, and what is said of scores."""

import json
from argparse import Namespace

import numpy as np
import pytest
from lib.command_line import UserError
from lib.squad import read_squad, write

from fs_plugins.finetuning.squad.answers import AnswerTable
from fs_plugins.finetuning.squad.data import Answer
from fs_plugins.finetuning.squad.windows import SquadDataset, WindowSizes
from tests.support.builders import write_file
from tests.support.squad import CONTEXT, DICTIONARY, question, sentence, split_of, squad_json


def test_plain_and_compressed_and_several_files(tmp_path):
    first = write_file(tmp_path / "a.json", squad_json(question(), question("q2", ())))
    without_flag = question("q3", [("Rollo", 0), ("911", 15)])
    del without_flag["is_impossible"]  # as in version 1.1
    second = write_file(tmp_path / "b.json.gz", squad_json(without_flag))
    squad, unlabelled = read_squad([first, second], "train")
    assert [q.id for q in squad.questions] == ["q1", "q2", "q3"]
    assert [q.context for q in squad.questions] == [0, 0, 1] and squad.contexts == [CONTEXT] * 2
    assert [[a.text for a in q.answers] for q in squad.questions] == [["911"], [], ["Rollo", "911"]]
    assert not squad.not_in_context and not squad.moved and not unlabelled


def test_an_answer_elsewhere_is_taken_at_its_nearest_place(tmp_path):
    for given_at, expected in ((22, 20), (1, 0), (9, 0), (11, 20), (33, 44), (-4, 0), (900, 44)):
        path = write_file(tmp_path / "a.json", squad_json(question(answers=[("Rollo", given_at)])))
        squad, _ = read_squad([path], "train")
        assert squad.questions[0].answers == (Answer("Rollo", expected),) and squad.moved == ["q1"]
    path = write_file(tmp_path / "a.json", squad_json(question("odd", [("1066", 3)]), question("q2")))
    squad, _ = read_squad([path], "train")
    assert squad.not_in_context == ["odd"] and squad.questions[0].answers == (Answer("1066", -1),)


def test_questions_without_answers_can_be_predicted_only(tmp_path):
    asked = ({"id": "q1", "question": "?"}, question("q2", (), is_impossible=False), question("q3", ()))
    path = write_file(tmp_path / "a.json", squad_json(*asked))
    squad, unlabelled = read_squad([path], "test")
    assert [q.answers for q in squad.questions] == [()] * 3 and unlabelled == ["q1", "q2"]
    with pytest.raises(UserError, match="2 questions without answers.*q1.* --split test"):
        read_squad([path], "valid")


@pytest.mark.parametrize("content", [{"data": [{**question(), "context": CONTEXT}]}, [question()], {}])
def test_another_form_is_said(content, tmp_path):
    """The flat one of run_qa.py, a list, and an empty file."""
    with pytest.raises(ValueError, match="a.json, in the form of train-v2.0.json: "):
        read_squad([write_file(tmp_path / "a.json", content)], "valid")


def test_scores_of_a_split_without_answers(tmp_path):
    """Are in words, not nan."""
    dataset = SquadDataset(
        split_of([sentence(9)], [("q", "w50", 0, [])]), WindowSizes(16, 8, 8, 3), DICTIONARY
    )
    rows = np.array([[2.5, 3.0, 4, 4]])
    task = Namespace(cfg=Namespace(null_threshold=0.0), datasets={"valid": Namespace(dataset=dataset)})
    task.metric, task.answers = "f1", lambda split, *given: AnswerTable(dataset, *given)
    args = Namespace(output=tmp_path, checkpoint=tmp_path / "a.pt")
    said = write(task, {"valid": (np.array([0]), rows)}, args, "exlm")
    assert "F1 0.00 (no question has an answer) at threshold 0" in said and "nan" not in said
    assert json.loads((tmp_path / "predictions.json").read_text()) == {"q": "w0"}
    assert json.loads((tmp_path / "result.json").read_text())["metrics"]["valid"]["best_f1"] == 100


@pytest.mark.parametrize(
    ("questions", "named"),
    [
        ([question(answers=[("1066", 0)]), question("q2", ())], "no question of .*a.json has"),
        ([question(), question()], "question q1 occurs twice"),
        ([question("q1", (), is_impossible="false")], "1 question without .*q1"),
    ],
)
def test_what_is_refused(tmp_path, questions, named):
    with pytest.raises(UserError, match=named):
        read_squad([write_file(tmp_path / "a.json", squad_json(*questions))], "train")
