"""Reading SQuAD files, and what is wrong with them."""

import pytest
from lib.command_line import UserError
from lib.squad import read_squad

from fs_plugins.finetuning.squad.data import Answer
from tests.support.builders import write_file
from tests.support.squad import CONTEXT, question, squad_json


def test_plain_and_compressed_and_several_files(tmp_path):
    first = write_file(tmp_path / "a.json", squad_json(question(), question("q2", ())))
    without_flag = question("q3", [("Rollo", 0), ("911", 15)])
    del without_flag["is_impossible"]  # as in version 1.1
    second = write_file(tmp_path / "b.json.gz", squad_json(without_flag))
    squad, unlabelled = read_squad([first, second], "train")
    assert [q.id for q in squad.questions] == ["q1", "q2", "q3"]
    assert [q.context for q in squad.questions] == [0, 0, 1] and squad.contexts == [CONTEXT] * 2
    assert [[a.text for a in q.answers] for q in squad.questions] == [["911"], [], ["Rollo", "911"]]
    assert not squad.misplaced and not unlabelled


def test_an_answer_elsewhere_has_no_place(tmp_path):
    for answer, start in (("Rollo", 1), ("Rollo", -4), ("Rollo", 900), ("1066", 3)):
        asked = question("odd", [(answer, start)]), question("q2")
        squad, _ = read_squad([write_file(tmp_path / "a.json", squad_json(*asked))], "train")
        assert squad.misplaced == ["odd"] and squad.questions[0].answers == (Answer(answer, -1),)


def test_questions_without_answers_can_be_predicted_only(tmp_path):
    asked = ({"id": "q1", "question": "?"}, question("q2", (), is_impossible=False), question("q3", ()))
    path = write_file(tmp_path / "a.json", squad_json(*asked))
    squad, unlabelled = read_squad([path], "test")
    assert [q.answers for q in squad.questions] == [()] * 3 and unlabelled == ["q1", "q2"]
    with pytest.raises(UserError, match="2 questions without answers.*q1.* --split test"):
        read_squad([path], "valid")


def test_a_question_that_occurs_twice(tmp_path):
    with pytest.raises(UserError, match="q1"):
        read_squad([write_file(tmp_path / "a.json", squad_json(question(), question()))], "train")
