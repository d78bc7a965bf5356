"""The task of GLUE: fairseq's ``sentence_prediction``, in another order."""

import numpy as np
import pytest
import torch
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fs_plugins.data.length_order import LENGTH_GROUP
from fs_plugins.tasks.glue import (
    GlueConfig,
    GlueTask,
    RepeatedSentencePredictionTask,
)
from tests import builders

WORDS = builders.dictionary(50)
PAIRS = 90


def words(rng, count):
    return [*rng.integers(WORDS.nspecial, len(WORDS) - 1, count).tolist(), WORDS.eos()]


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs of sentences of 2 to 60 tokens, whose class tells the length of the first."""
    folder, rng = tmp_path_factory.mktemp("pairs"), np.random.default_rng(5)
    dictionary, labels = builders.dictionary(50), builders.dictionary(["yes", "no"])
    for one in (dictionary, labels):
        one.symbols = one.symbols[:-1]  # dict.txt has no <mask>
    for split in ("train", "valid"):
        lengths = rng.integers(1, 30, (PAIRS, 2))
        builders.write_split(folder / "input0", split, [words(rng, n) for n in lengths[:, 0]], dictionary)
        builders.write_split(folder / "input1", split, [words(rng, n) for n in lengths[:, 1]], dictionary)
        builders.write_split(folder / "label", split, [[4 + int(n % 2), 2] for n in lengths[:, 0]], labels)
    return folder


def load(folder, split, task_class=GlueTask, config_class=GlueConfig, seed=3, **settings):
    tokens = {"init_token": WORDS.bos(), "separator_token": WORDS.eos()}
    config = config_class(data=str(folder), num_classes=2, seed=seed, **tokens, **settings)
    config.regression_target = False
    task = task_class.setup_task(config)
    return task.load_dataset(split)


def rows(dataset):
    """Row -> (tokens, class), in the order of the data set."""
    return {
        int(i): (dataset[int(i)]["net_input.src_tokens"].tolist(), dataset[int(i)]["target"].tolist())
        for i in dataset.ordered_indices()
    }


def lengths(dataset):
    return np.array([len(tokens) for tokens, _ in rows(dataset).values()])


@pytest.mark.parametrize("split", ["train", "valid"])
@pytest.mark.parametrize("grouped", [False, True])
def test_the_rows_are_fairseqs(pairs, split, grouped):
    theirs = rows(load(pairs, split, SentencePredictionTask, SentencePredictionConfig))
    ours = rows(load(pairs, split, group_by_length=grouped))
    assert ours == theirs and len(ours) == PAIRS
    if split == "train" and not grouped:
        assert list(ours) == list(theirs)  # the very batches of fairseq


def test_groups_of_about_one_length(pairs):
    grouped = lengths(load(pairs, "train", group_by_length=True))
    steps = grouped // LENGTH_GROUP
    assert (np.diff(steps) >= 0).all() and len(set(steps)) > 3
    assert (np.diff(grouped) < 0).any()  # at random within a group
    assert (np.diff(lengths(load(pairs, "train")) // LENGTH_GROUP) < 0).any()
    assert (np.diff(lengths(load(pairs, "valid"))) >= 0).all()


def test_repeated_rows_are_grouped_too(pairs):
    dataset = load(
        pairs,
        "train",
        RepeatedSentencePredictionTask,
        GlueConfig,
        repeat_times=3,
        group_by_length=True,
    )
    batch = dataset.collater([dataset[int(i)] for i in dataset.ordered_indices()])
    found = batch["net_input"]["src_lengths"]
    assert torch.equal(found % 3, torch.zeros_like(found)) and len(found) == PAIRS
    assert (np.diff((found // 3).numpy() // LENGTH_GROUP) >= 0).all()
