"""A tiny corpus, questions about it, and trainings that are stopped."""

import random
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from fairseq.trainer import Trainer

from tests.support import builders, squad

WORDS = 300


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


@pytest.fixture(scope="session")
def corpus(tmp_path_factory) -> Path:
    """The folder of a binarised corpus: 300 words, some 5,500 tokens, ``train`` and ``valid``; of documents
    of one to six sentences, and an empty one after each."""
    rng, folder = random.Random(1), tmp_path_factory.mktemp("corpus")
    symbols = builders.dictionary(WORDS)
    for split, count in (("train", 120), ("valid", 15)):
        rows = []
        for document in range(count):
            rows += [sentence(rng, document % 15) for _ in range(rng.randint(1, 6))] + [""]
        ids = [[*map(symbols.index, row.split()), symbols.eos()] for row in rows]
        builders.write_split(folder, split, ids, symbols)
    return folder


@pytest.fixture(scope="session")
def squad_data(corpus, tmp_path_factory) -> Path:
    """SQuAD's train and valid, which are the same: contexts of 30 words, each with three questions, of which
    one has no answer."""
    folder, rng, questions = tmp_path_factory.mktemp("squad"), random.Random(5), []
    shutil.copy(corpus / "dict.txt", folder)
    contexts = [" ".join(f"w{rng.randrange(60)}" for _ in range(30)) for _ in range(4)]
    for i in range(12):
        first = rng.randrange(26)
        answers = [] if i % 3 == 2 else [(first, first + rng.randrange(3))]
        questions.append((f"q{i}", f"w{i} w{59 - i} w{i + 20}", i // 3, answers))
    squad.save(folder, squad.split_of(contexts, questions), "train", "valid")
    return folder
