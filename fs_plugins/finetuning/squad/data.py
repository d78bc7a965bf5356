"""Tokenised splits of SQuAD 2.0 (Rajpurkar et al., 2018)."""

import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from fs_plugins.data.vocabulary import Vocabulary
from fs_plugins.files import naming_errors


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
    """The questions of one or more files, in their order."""

    contexts: list[str] = field(default_factory=list)  # the paragraphs
    # the questions, each with the index of its context
    questions: list[Question] = field(default_factory=list)
    # ids of the questions some of whose gold answers are not at their ``answer_start``
    misplaced: list[str] = field(default_factory=list)


@dataclass
class TokenizedSquad:
    """A split, tokenised."""

    squad: Squad  # texts, questions and answers
    context_tokens: list[np.ndarray]  # dictionary ids of each context, int32, without special symbols
    # [n, 2] int32 for each context, the first character of each token and that after its last; white space at
    # its edges is left out, so that of white space alone both are the same
    context_offsets: list[np.ndarray]
    question_tokens: list[np.ndarray]  # dictionary ids of each question
    settings: dict  # ``dictionary``, the SHA-256 of dict.txt, and others of its preparation


def save_split(split: TokenizedSquad, file: BinaryIO) -> None:
    """Writes a split as a .npz file."""
    texts = json.dumps({"settings": split.settings, **asdict(split.squad)})
    arrays = {"texts": np.frombuffer(texts.encode(), np.uint8)}
    for key in ("context_tokens", "context_offsets", "question_tokens"):
        rows = getattr(split, key)
        arrays |= {key: np.concatenate(rows), f"{key}_lengths": np.array(list(map(len, rows)))}
    np.savez_compressed(file, **arrays)


def load_split(folder: str | os.PathLike, name: str) -> TokenizedSquad:
    """Reads a split of :func:`save_split`. Raises ValueError if it was made with another dictionary than
    the folder's, or is damaged."""
    path = Path(folder) / f"{name}.npz"
    with naming_errors(path):
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
    if Vocabulary.read(Path(folder)).identity != settings.get("dictionary"):
        raise ValueError(
            f"{path} was made with another dictionary than {Path(folder) / 'dict.txt'}: "
            "run scripts/prepare_squad.py anew with that of the pre-training"
        )
    return split
