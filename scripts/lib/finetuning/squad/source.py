"""Reads SQuAD: its JSON, version 1.1 or 2.0, and the Parquet of the Hugging Face hub."""

import json
from collections.abc import Iterator, Sequence
from itertools import chain, groupby
from pathlib import Path

from lib.command_line import UserError, counted
from lib.data.parquet import PARQUET, columns_of, rows_of, shards_of
from lib.data.text_files import opened

from fs_plugins.files import naming_errors
from fs_plugins.finetuning.squad.data import Answer, Question, Squad

HUB_SPLITS = {"valid": "validation"}  # our name -> the hub's
COLUMNS = ("context", "id", "question")


def read_squad(paths: Sequence[Path], split: str) -> tuple[Squad, list[str]]:
    """Reads the questions of files of one split.

    An answer that is not where its ``answer_start`` says is taken at its nearest occurrence in the context.
    One that is not in the context at all keeps its text, for evaluation, and has no place. Both are counted.

    Args:
        paths: files, plain or compressed, or folders of the hub's files; their questions follow each other.
        split: its name; in "train" and "valid" every question has to have answers, or be impossible.

    Returns:
        The split, and the ids of the questions that have no answers and are not impossible.

    Raises:
        UserError: for an id that occurs twice, a question that is impossible and has answers, one of "train"
            or "valid" that has neither, and a training set without an answer in its context.
    """
    squad, unlabelled, seen = Squad(), [], {}
    for path in chain.from_iterable(_files(path, split) for path in paths):
        with naming_errors(path):
            for context, entries in _paragraphs(path):
                squad.contexts.append(context)
                for entry in entries:
                    question = _add_question(squad, entry)
                    if question.id in seen:
                        raise UserError(f"question {question.id} is in {seen[question.id]} and {path}")
                    seen[question.id] = path
                    if not question.answers and entry.get("is_impossible") is not True:
                        unlabelled.append(question.id)
    if unlabelled and split in ("train", "valid"):
        raise UserError(
            f"{', '.join(map(str, paths))}: {counted(len(unlabelled), 'question')} without answers, not "
            f"is_impossible either, such as {unlabelled[0]}: to predict them, prepare them by --split test"
        )
    if split == "train" and not any(q.answers and q.answers[0].start >= 0 for q in squad.questions):
        raise UserError(f"no question of {', '.join(map(str, paths))} has an answer that is in its context")
    return squad, unlabelled


def _files(path: Path, split: str) -> list[Path]:
    if not path.is_dir():
        return [path]
    name = HUB_SPLITS.get(split, split)
    return shards_of(path, name) or [path / f"{name}{PARQUET}"]  # a path that does not exist, for the message


def _paragraphs(path: Path) -> Iterator[tuple[str, list[dict]]]:
    """Yields (context, its questions as in the JSON)."""
    if path.suffix == PARQUET:
        names = [*COLUMNS, *(["answers"] if "answers" in columns_of(path, nested=True) else [])]
        rows = (dict(zip(names, row, strict=True)) for row in rows_of(path, names))
        for context, entries in groupby(rows, key=lambda row: row["context"]):
            yield context, [_entry(row) for row in entries]
        return
    with opened(path) as file:
        content = json.load(file)
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            yield paragraph["context"], paragraph["qas"]


def _entry(row: dict) -> dict:
    """Returns a row of the hub as the JSON has it; there, a question without answers is impossible."""
    if (answers := row.pop("answers", None)) is None:
        return row
    listed = zip(answers["text"], answers["answer_start"], strict=True)
    given = [{"text": text, "answer_start": start} for text, start in listed]
    return {**row, "answers": given, "is_impossible": not given}


def _add_question(squad: Squad, entry: dict) -> Question:
    """Adds a question about the last context."""
    name, context = str(entry["id"]), squad.contexts[-1]
    listed = entry.get("answers") or []
    answers = [Answer(a["text"], _place(context, a["text"], a["answer_start"])) for a in listed]
    if any(answer.start < 0 for answer in answers):
        squad.not_in_context.append(name)
    if any(answer.start not in (-1, a["answer_start"]) for answer, a in zip(answers, listed, strict=True)):
        squad.moved.append(name)
    squad.questions.append(Question(name, entry["question"], len(squad.contexts) - 1, tuple(answers)))
    return squad.questions[-1]


def _place(context: str, answer: str, given: int) -> int:
    """Returns where the answer begins: at ``given``, else at its nearest occurrence, else -1."""
    if not answer.strip():
        return -1
    if given >= 0 and context.startswith(answer, given):
        return given
    before, after = context.rfind(answer, 0, max(given, 0) + len(answer)), context.find(answer, max(given, 0))
    places = [place for place in (before, after) if place >= 0]
    return min(places, key=lambda place: abs(place - given), default=-1)
