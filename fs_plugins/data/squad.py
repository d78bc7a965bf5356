"""SQuAD files (Rajpurkar et al., 2018): contexts, questions and answers, checked while they are read."""

import gzip
import json
import logging
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

logger = logging.getLogger(__name__)

_SURROGATE = re.compile("[\ud800-\udfff]")  # what JSON can write, and no text can hold


@dataclass(frozen=True)
class Answer:
    """A gold answer; ``start`` is the index of its first character in the context, -1 if it is not in it."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about the context with index ``context``; without answers it cannot be answered from it."""

    id: str
    text: str
    context: int
    answers: tuple[Answer, ...]


@dataclass
class Squad:
    """The questions of one or more files, in their order.

    Attributes:
        contexts: the paragraphs.
        questions: the questions, each with the index of its context.
        not_in_context: ids of the questions some of whose gold answers are not in their context.
        moved: ids of those with an answer that was not where the file says, but elsewhere in the context.
    """

    contexts: list[str] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)
    not_in_context: list[str] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)


def read_squad(paths: Sequence[str | os.PathLike], strict: bool = False) -> Squad:
    """Reads SQuAD JSON, plain or ``.gz``, version 1.1 or 2.0.

    An answer that is not where its ``answer_start`` says is taken at its nearest occurrence in the context.
    One that is not in the context at all keeps its text, for evaluation, and has no place. Both are counted,
    and named in the log by the question's id.

    Args:
        paths: files; their questions follow each other.
        strict: make an answer that is not in its context an error.

    Raises:
        FileNotFoundError: if a file is not there.
        ValueError: for a file that is no SQuAD JSON, a context or question that is empty, an id that is there
            twice, a question that contradicts itself; names the file and the question.
    """
    squad = Squad()
    seen: dict[str, str] = {}
    for path in map(Path, paths):
        for article in _member(_load(path), "data", list, path, "the file"):
            for paragraph in _member(article, "paragraphs", list, path, "an article"):
                context = _member(paragraph, "context", str, path, "a paragraph")
                squad.contexts.append(context)
                for entry in _member(paragraph, "qas", list, path, f"the paragraph {context[:40]!r}"):
                    _add_question(squad, entry, context, path, seen)
    if not squad.questions:
        raise ValueError(f"there are no questions in {', '.join(map(str, paths))}")
    for ids, what in (
        (squad.moved, "have an answer that is not at its answer_start; its nearest occurrence is taken"),
        (squad.not_in_context, "have an answer that is not in their context"),
    ):
        if ids:
            logger.warning("%d of %d questions %s: %s", len(ids), len(squad.questions), what, _some(ids))
    if strict and squad.not_in_context:
        raise ValueError(
            f"{len(squad.not_in_context)} questions have an answer that is not in their context: "
            f"{_some(squad.not_in_context)}"
        )
    return squad


def gold_answers(squad: Squad) -> dict[str, list[str]]:
    """Question id -> the texts of its gold answers; none where it cannot be answered."""
    return {question.id: [answer.text for answer in question.answers] for question in squad.questions}


def _load(path: Path):
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: give a SQuAD JSON, plain or .gz")
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (ValueError, EOFError, OSError, zlib.error) as error:  # ValueError: of json, and of the decoding
        raise ValueError(f"{path} is not JSON, plain or .gz: {error}") from error


def _member(container, key: str, kind: type, path: Path, where: str):
    """``container[key]``, which has to be of that kind."""
    value = container.get(key) if isinstance(container, dict) else None
    if not isinstance(value, kind):
        raise ValueError(
            f"{path} is not a SQuAD JSON (data, paragraphs, context and qas, id, question and answers): "
            f"{where} has no {key!r} that is a {kind.__name__}"
        )
    if kind is str and (half := _SURROGATE.search(value)):
        raise ValueError(
            f"{path}: the {key!r} of {where} has half a character, \\u{ord(half[0]):x} without its other "
            "half: remove it"
        )
    return value


def _add_question(squad: Squad, entry, context: str, path: Path, seen: dict[str, str]) -> None:
    name = _member(entry, "id", str, path, f"a question on {context[:40]!r}")
    where = f"question {name}"
    if name in seen:
        raise ValueError(f"{where} is there twice, in {seen[name]} and in {path}: ids have to be unique")
    seen[name] = str(path)
    text = _member(entry, "question", str, path, where)
    if not context.strip():
        raise ValueError(f"{path}: the context of {where} is empty")
    if not text.strip():
        raise ValueError(f"{path}: the text of {where} is empty")
    impossible = entry.get("is_impossible", False)
    listed = _member(entry, "answers", list, path, where) if not impossible else entry.get("answers") or []
    if bool(impossible) == bool(listed):
        what = "is_impossible, yet has answers" if impossible else "not is_impossible, yet has no answers"
        raise ValueError(f"{path}: {where} is {what}")
    answers = []
    for item in listed:
        answer = _member(item, "text", str, path, f"an answer to {where}")
        given = _member(item, "answer_start", int, path, f"an answer to {where}")
        start = _place(context, answer, given)
        answers.append(Answer(answer, start))
        if start < 0 or not answer.strip():
            _once(squad.not_in_context, name)
        elif start != given:
            _once(squad.moved, name)
    squad.questions.append(Question(name, text, len(squad.contexts) - 1, tuple(answers)))


def _place(context: str, answer: str, given: int) -> int:
    """Where the answer begins: at ``given``, else at its nearest occurrence, else -1."""
    if not answer.strip():
        return -1
    if given >= 0 and context.startswith(answer, given):
        return given
    before, after = context.rfind(answer, 0, max(given, 0) + len(answer)), context.find(answer, max(given, 0))
    places = [place for place in (before, after) if place >= 0]
    return min(places, key=lambda place: abs(place - given), default=-1)


def _once(ids: list[str], name: str) -> None:
    if not ids or ids[-1] != name:
        ids.append(name)


def _some(ids: Sequence[str], most: int = 5) -> str:
    return ", ".join(ids[:most]) + (f" and {len(ids) - most} more" if len(ids) > most else "")
