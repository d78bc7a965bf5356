"""SQuAD 2.0 (Rajpurkar et al., 2018): its JSON, checked while it is read, and the tokenised splits of it."""

import gzip
import json
import logging
import os
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from fs_plugins.data.vocabulary import Vocabulary

logger = logging.getLogger(__name__)


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


def read_squad(paths: Sequence[str | os.PathLike]) -> Squad:
    """Reads SQuAD JSON, plain or ``.gz``, version 1.1 or 2.0.

    An answer that is not where its ``answer_start`` says is taken at its nearest occurrence in the context.
    One that is not in the context at all keeps its text, for evaluation, and has no place. Both are counted,
    and named in the log by the question's id.

    Args:
        paths: files; their questions follow each other.

    Raises:
        FileNotFoundError: if a file is not there.
        ValueError: for a file that is no SQuAD JSON, a context or question that is empty, an id that is there
            twice, a question that contradicts itself; names the file and, if possible, the question.
    """
    squad = Squad()
    seen: dict[str, Path] = {}
    for path in map(Path, paths):
        entry = None
        try:
            for article in _load(path)["data"]:
                for paragraph in article["paragraphs"]:
                    squad.contexts.append(paragraph["context"])
                    for entry in paragraph["qas"]:
                        _add_question(squad, entry, path, seen)
        except (KeyError, TypeError, AttributeError) as error:
            where = f" in the question {json.dumps(entry)[:200]}" if entry else ""
            raise ValueError(
                f"{path} is not a SQuAD JSON (data, paragraphs, context and qas, id, question and answers): "
                f"{error!r}{where}"
            ) from error
    if not squad.questions:
        raise ValueError(f"there are no questions in {', '.join(map(str, paths))}")
    for ids, what in (
        (squad.moved, "have an answer that is not at its answer_start; its nearest occurrence is taken"),
        (squad.not_in_context, "have an answer that is not in their context"),
    ):
        if ids:
            questions = len(squad.questions)
            logger.warning("%d of %d questions %s: %s", len(ids), questions, what, ", ".join(ids[:5]))
    return squad


def _load(path: Path):
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}: give a SQuAD JSON, plain or .gz")
    try:
        data = path.read_bytes()
        content = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        json.dumps(content, ensure_ascii=False).encode()  # fails on half a character (\ud83d)
    except (ValueError, EOFError, OSError, zlib.error) as error:  # ValueError: of json, and of the decoding
        raise ValueError(f"{path} is not JSON, plain or .gz: {error}") from error
    return content


def _add_question(squad: Squad, entry: dict, path: Path, seen: dict[str, Path]) -> None:
    name, text, context = entry["id"], entry["question"], squad.contexts[-1]
    where = f"question {name}"
    if name in seen:
        raise ValueError(f"{where} is there twice, in {seen[name]} and in {path}: ids have to be unique")
    seen[name] = path
    for what, value in (("context", context), ("text", text)):
        if not value.strip():
            raise ValueError(f"{path}: the {what} of {where} is empty")
    impossible = entry.get("is_impossible", False)
    listed = entry.get("answers") or [] if impossible else entry["answers"]
    if bool(impossible) == bool(listed):
        what = "is_impossible, yet has answers" if impossible else "not is_impossible, yet has no answers"
        raise ValueError(f"{path}: {where} is {what}")
    answers = [Answer(a["text"], _place(context, a["text"], a["answer_start"])) for a in listed]
    if any(answer.start < 0 for answer in answers):
        squad.not_in_context.append(name)
    if any(answer.start not in (-1, a["answer_start"]) for answer, a in zip(answers, listed, strict=True)):
        squad.moved.append(name)
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


@dataclass
class TokenizedSquad:
    """A split, tokenised.

    Attributes:
        squad: texts, questions and answers.
        context_tokens: dictionary ids of each context, int32, without special symbols.
        context_offsets: [n, 2] int32 for each context, the first character of each token and that after its
            last; white space at its edges is left out, so that of white space alone both are the same.
        question_tokens: dictionary ids of each question.
        settings: what it was made with: ``dictionary``, SHA-256 of dict.txt, and what else may be of use.
    """

    squad: Squad
    context_tokens: list[np.ndarray]
    context_offsets: list[np.ndarray]
    question_tokens: list[np.ndarray]
    settings: dict


def save_split(split: TokenizedSquad, folder: str | os.PathLike, name: str) -> None:
    """Writes FOLDER/NAME.npz, atomically."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts = json.dumps({"settings": split.settings, **asdict(split.squad)})
    arrays = {"texts": np.frombuffer(texts.encode(), np.uint8)}
    for key in ("context_tokens", "context_offsets", "question_tokens"):
        rows = getattr(split, key)
        arrays |= {key: np.concatenate(rows), f"{key}_lengths": np.array(list(map(len, rows)))}
    partial = folder / f".{name}.npz.part"
    with open(partial, "wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(partial, folder / f"{name}.npz")


def load_split(folder: str | os.PathLike, name: str) -> TokenizedSquad:
    """Reads what :func:`save_split` wrote.

    Raises:
        FileNotFoundError: if the split, or the dictionary, is not there.
        ValueError: if it is damaged, or was made with another dictionary than the folder's.
    """
    path = Path(folder) / f"{name}.npz"
    if not path.is_file():
        flag = f"--{name}" if name in ("train", "valid") else f"--split {name}"
        raise FileNotFoundError(
            f"there is no split {name!r} in {folder}: scripts/prepare_squad.py {flag} FILE makes it"
        )
    try:
        with np.load(path) as arrays:
            texts = json.loads(arrays["texts"].tobytes())
            rows = {
                key: np.split(arrays[key], arrays[f"{key}_lengths"].cumsum()[:-1])
                for key in ("context_tokens", "context_offsets", "question_tokens")
            }
        settings = texts.pop("settings")
        questions = [
            Question(**{**question, "answers": tuple(Answer(**answer) for answer in question["answers"])})
            for question in texts.pop("questions")
        ]
        split = TokenizedSquad(Squad(questions=questions, **texts), **rows, settings=settings)
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} is damaged ({error}): run scripts/prepare_squad.py anew") from error
    if Vocabulary.read(Path(folder)).identity != settings.get("dictionary"):
        raise ValueError(
            f"{path} was made with another dictionary than {Path(folder) / 'dict.txt'}: "
            "run scripts/prepare_squad.py anew with that of the pre-training"
        )
    return split
