"""A tiny corpus, binarised once by fairseq's own tools, and a checkpoint pre-trained on it."""

import random
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from fairseq.trainer import Trainer

from tests.integration import commands
from tests.support import squad

WORDS = 300
QUESTIONS = 12


class Stop(Exception):
    """What a run is stopped by."""


@pytest.fixture
def stopped(monkeypatch):
    """``with stopped(N):`` a training in this process ends by an exception after update N."""

    @contextmanager
    def stop(updates: int):
        step = Trainer.train_step

        def train_step(trainer, samples, raise_oom=False):
            if trainer.get_num_updates() >= updates:
                raise Stop
            return step(trainer, samples, raise_oom)

        with monkeypatch.context() as patch, pytest.raises(Stop):
            patch.setattr(Trainer, "train_step", train_step)
            yield

    return stop


def sentence(rng: random.Random, topic: int) -> str:
    """A walk over the words of one topic, each of which has few successors: there is something to learn."""
    word, words = topic * 20 + rng.randrange(20), []
    for _ in range(rng.randint(3, 20)):
        words.append(f"w{word % WORDS}")
        word = topic * 20 + (word * 7 + rng.choice((1, 1, 1, 2, 5))) % 20
    return " ".join(words)


def documents(rng: random.Random, count: int) -> str:
    """Documents of one to six sentences, a line each, with an empty line after each document."""
    return "".join(
        "".join(sentence(rng, document % 15) + "\n" for _ in range(rng.randint(1, 6))) + "\n"
        for document in range(count)
    )


def binarise(folder: Path, text: dict[str, str], *flags) -> Path:
    """fairseq-preprocess of TEXT[split] into FOLDER/bin."""
    folder.mkdir(parents=True, exist_ok=True)
    prefixes = []
    for split, lines in text.items():
        (folder / split).write_text(lines, encoding="utf-8")
        prefixes += [f"--{split}pref", folder / split]
    fixed = ("--only-source", "--workers", 1, "--destdir", folder / "bin")
    commands.call("preprocess", *fixed, *prefixes, *flags)
    return folder / "bin"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """The folder of a binarised corpus: 300 words, some 5,500 tokens, ``train`` and ``valid``."""
    rng = random.Random(1)
    folder = tmp_path_factory.mktemp("corpus")
    dictionary = folder / "dict.txt"
    dictionary.write_text("".join(f"w{i} {WORDS - i}\n" for i in range(WORDS)))
    text = {"train": documents(rng, 120), "valid": documents(rng, 15)}
    return binarise(folder, text, "--srcdict", dictionary)


@pytest.fixture(scope="session")
def pretrained(corpus, tmp_path_factory) -> Path:
    """The checkpoint of a few updates of ExLM on the corpus."""
    folder = tmp_path_factory.mktemp("pretrained")
    commands.train(*commands.pretraining(corpus, folder))
    return folder / "checkpoint_last.pt"


@pytest.fixture(scope="session")
def squad_data(corpus, tmp_path_factory) -> Path:
    """SQuAD's train and valid, which are the same questions."""
    folder = tmp_path_factory.mktemp("squad")
    shutil.copy(corpus / "dict.txt", folder)
    for name in ("train", "valid"):
        save_questions(folder, name, QUESTIONS, seed=5)
    return folder


def save_questions(folder: Path, name: str, count: int, seed: int) -> None:
    """Contexts of 30 words, each with three questions, of which one has no answer."""
    rng = random.Random(seed)
    contexts = [" ".join(f"w{rng.randrange(60)}" for _ in range(30)) for _ in range(count // 3)]
    questions = []
    for i in range(count):
        first = rng.randrange(26)
        answers = [] if i % 3 == 2 else [(first, first + rng.randrange(3))]
        questions.append((f"q{i}", f"w{i} w{59 - i} w{i + 20}", i // 3, answers))
    squad.save(folder, squad.split_of(contexts, questions), name)
