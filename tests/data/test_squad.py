"""Reading SQuAD files, and what is wrong with them."""

import gzip
import json

import pytest

from fs_plugins.data.squad import Answer, read_squad
from tests.makers.squad import CONTEXT, question, squad_json, write


def test_plain_and_compressed_and_several_files(tmp_path):
    first = write(tmp_path / "a.json", squad_json(question(), question("q2", ())))
    second = tmp_path / "b.json.gz"
    without_flag = question("q3", [("Rollo", 0), ("911", 15)])
    del without_flag["is_impossible"]  # as in version 1.1
    second.write_bytes(gzip.compress(json.dumps(squad_json(without_flag)).encode()))
    squad = read_squad([first, second])
    assert [q.id for q in squad.questions] == ["q1", "q2", "q3"]
    assert [q.context for q in squad.questions] == [0, 0, 1] and squad.contexts == [CONTEXT] * 2
    assert [[a.text for a in q.answers] for q in squad.questions] == [["911"], [], ["Rollo", "911"]]
    assert not squad.not_in_context and not squad.moved


def test_an_answer_elsewhere_is_taken_at_its_nearest_place(tmp_path, caplog):
    path = write(tmp_path / "a.json", squad_json(question(answers=[("Rollo", 22)])))
    squad = read_squad([path])
    assert squad.questions[0].answers == (Answer("Rollo", 20),) and squad.moved == ["q1"]
    assert "1 of 1 questions have an answer that is not at its answer_start" in caplog.text
    for given, expected in ((1, 0), (9, 0), (11, 20), (33, 44), (-4, 0), (900, 44)):
        write(path, squad_json(question(answers=[("Rollo", given)])))
        assert read_squad([path]).questions[0].answers[0].start == expected


def test_an_answer_that_is_not_there_is_counted(tmp_path, caplog):
    path = write(tmp_path / "a.json", squad_json(question("odd", [("1066", 3)]), question("q2")))
    squad = read_squad([path])
    assert squad.not_in_context == ["odd"] and squad.questions[0].answers == (Answer("1066", -1),)
    assert "1 of 2 questions have an answer that is not in their context: odd" in caplog.text


CUT = gzip.compress(json.dumps(squad_json(question())).encode())[:-9]
HALF = json.dumps(squad_json(question(), context="In 911, Rollo \ud83d came"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("{not json", "a.json is not JSON, plain or .gz"),
        (CUT, "a.json is not JSON, plain or .gz"),
        (HALF, "a.json is not JSON, plain or .gz: .*ud83d.* surrogates not allowed"),
        ([1], "a.json is not a SQuAD JSON"),
        ({"data": [{}]}, "is not a SQuAD JSON .*: KeyError.'paragraphs'"),
        (squad_json({"id": "q1", "question": "?"}), "KeyError.'answers'. in the question .*q1"),
        (squad_json(question(answers=[("911", "15")])), "TypeError.* in the question .*q1"),
        (squad_json(question(), question()), "question q1 is there twice"),
        (squad_json(question(), context=" \n"), "the context of question q1 is empty"),
        (squad_json(question(is_impossible=True)), "q1 is is_impossible, yet has answers"),
        (squad_json(question(answers=(), is_impossible=False)), "not is_impossible, yet has no answers"),
        (squad_json(), "there are no questions in"),
    ],
)
def test_what_is_refused(tmp_path, content, says):
    path = tmp_path / "a.json"
    path.write_bytes(content) if isinstance(content, bytes) else write(path, content)
    with pytest.raises(ValueError, match=says):
        read_squad([path])
    with pytest.raises(FileNotFoundError, match="there is no file .*b.json"):
        read_squad([tmp_path / "b.json"])
