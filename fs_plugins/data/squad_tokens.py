"""A SQuAD split as fine-tuning reads it: tokens, offsets and text, in two files beside the dictionary."""

import hashlib
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from fs_plugins.data.squad import Answer, Question, Squad

FORMAT = 1


@dataclass
class Ragged:
    """Rows of different lengths in one array: row i is ``values[starts[i] : starts[i + 1]]``."""

    values: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[np.ndarray]) -> "Ragged":
        starts = np.cumsum([0, *map(len, rows)], dtype=np.int64)
        return cls(np.concatenate(rows) if rows else np.zeros(0, dtype=np.int32), starts)

    def __getitem__(self, i: int) -> np.ndarray:
        return self.values[self.starts[i] : self.starts[i + 1]]

    def __len__(self) -> int:
        return len(self.starts) - 1


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
    context_tokens: Ragged
    context_offsets: Ragged
    question_tokens: Ragged
    settings: dict


def save(split: TokenizedSquad, folder: str | os.PathLike, name: str) -> None:
    """Writes FOLDER/NAME.npz (tokens and offsets) and FOLDER/NAME.json (texts), both atomically."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").unlink(missing_ok=True)  # of before: never beside the new .npz
    squad = split.squad
    texts = {
        "settings": {**split.settings, "format": FORMAT},
        "contexts": squad.contexts,
        "questions": [
            [q.id, q.text, q.context, [[answer.text, answer.start] for answer in q.answers]]
            for q in squad.questions
        ],
    }
    arrays = {
        "context_tokens": split.context_tokens.values,
        "context_starts": split.context_tokens.starts,
        "context_offsets": split.context_offsets.values,
        "question_tokens": split.question_tokens.values,
        "question_starts": split.question_tokens.starts,
    }
    for suffix in ("npz", "json"):
        path, part = folder / f"{name}.{suffix}", folder / f".{name}.{suffix}.part"
        with open(part, "wb") as file:
            if suffix == "npz":
                np.savez_compressed(file, **arrays)
            else:
                file.write(json.dumps(texts, ensure_ascii=False).encode("utf-8"))
        os.replace(part, path)


def load(folder: str | os.PathLike, name: str) -> TokenizedSquad:
    """Reads what :func:`save` wrote.

    Raises:
        FileNotFoundError: if the split, or the dictionary, is not there.
        ValueError: if it is damaged, or was made with another dictionary than the folder's.
    """
    npz, texts_file = Path(folder) / f"{name}.npz", Path(folder) / f"{name}.json"
    flag = f"--{name}" if name in ("train", "valid") else f"--split {name}"
    for path in (npz, texts_file):
        if not path.is_file():
            raise FileNotFoundError(
                f"there is no split {name!r} in {folder} ({path.name} is not there): "
                f"scripts/prepare_squad.py {flag} FILE makes it"
            )
    try:
        texts = json.loads(texts_file.read_bytes())
        settings = texts["settings"]
        if settings["format"] != FORMAT:
            raise ValueError(f"it has format {settings['format']}, this reads {FORMAT}")
        with np.load(npz) as arrays:
            context_starts = arrays["context_starts"]
            split = TokenizedSquad(
                _squad(texts),
                Ragged(arrays["context_tokens"], context_starts),
                Ragged(arrays["context_offsets"], context_starts),
                Ragged(arrays["question_tokens"], arrays["question_starts"]),
                settings,
            )
        counts = len(split.context_tokens), len(split.question_tokens)
        expected = len(split.squad.contexts), len(split.squad.questions)
        if counts != expected:
            raise ValueError(f"contexts and questions are {counts} in the one file, {expected} in the other")
    except (ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"{npz} or {texts_file} is damaged ({error}): run scripts/prepare_squad.py anew"
        ) from error
    if dictionary_hash(folder) != settings.get("dictionary"):
        raise ValueError(
            f"{npz} was made with another dictionary than {Path(folder) / 'dict.txt'}: "
            "run scripts/prepare_squad.py anew with that of the pre-training"
        )
    return split


def _squad(texts: dict) -> Squad:
    questions = [
        Question(name, text, context, tuple(Answer(*answer) for answer in answers))
        for name, text, context, answers in texts["questions"]
    ]
    missing = [q.id for q in questions if any(answer.start < 0 for answer in q.answers)]
    return Squad(texts["contexts"], questions, missing)


def dictionary_hash(folder: str | os.PathLike) -> str:
    """SHA-256 of FOLDER/dict.txt."""
    return hashlib.sha256((Path(folder) / "dict.txt").read_bytes()).hexdigest()
