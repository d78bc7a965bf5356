"""Reads SQuAD: its JSON, version 1.1 or 2.0, and the Parquet of the Hugging Face hub."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path

from lib.command_line import UserError
from lib.data.kinds import opened
from lib.data.parquet import PARQUET, columns_of, rows_of, shards_of

from fs_plugins.data.squad import Answer, Question, Squad

HUB_SPLITS = {"valid": "validation"}  # our name -> the hub's
COLUMNS = ("context", "id", "question")


def read_squad(paths: Sequence[Path], split: str) -> tuple[Squad, list[str]]:
    """The questions of files of one split.

    An answer that is not where its ``answer_start`` says is taken at its nearest occurrence in the context.
    One that is not in the context at all keeps its text, for evaluation, and has no place. Both are counted.

    Args:
        paths: files, plain or gzip, or folders of the hub's files; their questions follow each other.
        split: its name; in "train" and "valid" every question has to have answers, or be impossible.

    Returns:
        The split, and the ids of the questions that have no answers and are not impossible.

    Raises:
        UserError: for a file that is not SQuAD, a context, question or id that is empty or no text, an id
            that occurs twice, a question that contradicts itself, answers that are none, a training set
            without any in its context; names the file and, if possible, the question.
    """
    squad, unlabelled, seen = Squad(), [], {}
    for path in chain.from_iterable(_files(place, split) for place in paths):
        entry = None
        try:
            for context, entries in _paragraphs(path):
                squad.contexts.append(context)
                for entry in entries:
                    if not _add_question(squad, entry, path, seen):
                        unlabelled.append(entry["id"])
        except (KeyError, TypeError, AttributeError) as error:
            where = f" in the question {json.dumps(entry)[:200]}" if entry else ""
            raise UserError(
                f"{path} is not SQuAD's JSON (data, paragraphs, context and qas, id, question and answers), "
                "or the hub's Parquet (id, context, question and answers): "
                f"{error!r}{where}"
            ) from error
    if unlabelled and split in ("train", "valid"):
        raise UserError(
            f"{len(unlabelled):,} questions of {', '.join(map(str, paths))} have no answers and are not "
            f"is_impossible, such as {unlabelled[0]}: to predict such questions, prepare them by --split test"
        )
    if not squad.questions:
        raise UserError(f"there are no questions in {', '.join(map(str, paths))}")
    if split == "train" and not any(q.answers and q.answers[0].start >= 0 for q in squad.questions):
        raise UserError(
            f"no question of {', '.join(map(str, paths))} has an answer that is in its context, so "
            "that nothing could be learned: an answer is a part of its context, letter for letter"
        )
    return squad, unlabelled


def _files(path: Path, split: str) -> list[Path]:
    if not path.is_dir():
        return [path]
    name = HUB_SPLITS.get(split, split)
    if not (files := shards_of(path, name)):
        raise UserError(f"{path} has no {name}-*{PARQUET}: give the files of the split")
    return files


def _paragraphs(path: Path) -> Iterator[tuple[str, list[dict]]]:
    """(context, its questions as in the JSON)"""
    if path.suffix == PARQUET:
        names = [*COLUMNS, *(["answers"] if "answers" in columns_of(path, nested=True) else [])]
        rows = (dict(zip(names, row, strict=True)) for row in rows_of(path, names))
        for context, entries in groupby(rows, key=lambda row: row["context"]):
            yield context, [_entry(row) for row in entries]
        return
    try:
        with opened(path) as file:
            content = json.load(file)
        json.dumps(content, ensure_ascii=False).encode()  # fails on half a character (\ud83d)
    except UserError:
        raise
    except (ValueError, RecursionError) as error:  # ValueError: of json, and of the decoding
        raise UserError(f"{path} is not JSON, plain or gzip: {error}") from error
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"], paragraph["qas"]


def _entry(row: dict) -> dict:
    """A row of the hub as the JSON has it; there, a question without answers is impossible."""
    answers = row.pop("answers", None)
    if answers is None:
        return row
    if len(answers["text"]) != len(answers["answer_start"]):
        raise TypeError(f"as many answer_start as answers: {answers}")
    listed = zip(answers["text"], answers["answer_start"], strict=True)
    given = [{"text": text, "answer_start": start} for text, start in listed]
    return {**row, "answers": given, "is_impossible": not given}


def _add_question(squad: Squad, entry: dict, path: Path, seen: dict[str, Path]) -> bool:
    """Whether it has answers, or is impossible."""
    name, text, context = entry["id"], entry["question"], squad.contexts[-1]
    where = f"question {name}"
    if not isinstance(name, str) or not name:
        raise UserError(f"{path}: the id of the question {text!r:.100} is {name!r:.100}, not text")
    for what, value in (("context", context), ("text", text)):
        if not isinstance(value, str) or not value.strip():
            fault = "empty" if isinstance(value, str) else f"{value!r:.100}, not text"
            raise UserError(f"{path}: the {what} of {where} is {fault}")
    if name in seen:
        raise UserError(f"{where} is there twice, in {seen[name]} and in {path}: ids have to be unique")
    seen[name] = path
    impossible, listed = entry.get("is_impossible", False), entry.get("answers") or []
    if not isinstance(impossible, bool):
        raise UserError(f"{path}: is_impossible of {where} is {impossible!r}: give true or false")
    if impossible and listed:
        raise UserError(f"{path}: {where} is is_impossible, yet has answers")
    if not isinstance(listed, list) or not all(map(_is_answer, listed)):
        raise UserError(
            f"{path}: {where} has the answers {listed!r:.200}: give a list of objects with text, a "
            "string, and answer_start, a number"
        )
    answers = [Answer(a["text"], _place(context, a["text"], a["answer_start"])) for a in listed]
    if any(answer.start < 0 for answer in answers):
        squad.not_in_context.append(name)
    if any(answer.start not in (-1, a["answer_start"]) for answer, a in zip(answers, listed, strict=True)):
        squad.moved.append(name)
    squad.questions.append(Question(name, text, len(squad.contexts) - 1, tuple(answers)))
    return bool(impossible or listed)


def _is_answer(value) -> bool:
    fits = isinstance(value, dict) and isinstance(value.get("text"), str)
    return fits and isinstance(value.get("answer_start"), int)


def _place(context: str, answer: str, given: int) -> int:
    """Where the answer begins: at ``given``, else at its nearest occurrence, else -1."""
    if not answer.strip():
        return -1
    if given >= 0 and context.startswith(answer, given):
        return given
    before, after = context.rfind(answer, 0, max(given, 0) + len(answer)), context.find(answer, max(given, 0))
    places = [place for place in (before, after) if place >= 0]
    return min(places, key=lambda place: abs(place - given), default=-1)
