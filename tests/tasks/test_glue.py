"""The task of GLUE: fairseq's ``sentence_prediction``, in another order."""

import numpy as np
import pytest
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


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Pairs of sentences of 2 to 60 tokens, whose class tells the length of the first."""
    folder, rng = tmp_path_factory.mktemp("pairs"), np.random.default_rng(5)
    labels = builders.dictionary(["yes", "no"])
    for split in ("train", "valid"):
        lengths = rng.integers(1, 30, (PAIRS, 2))
        builders.write_split(folder / "input0", split, builders.rows(WORDS, lengths[:, 0], rng), WORDS)
        builders.write_split(folder / "input1", split, builders.rows(WORDS, lengths[:, 1], rng), WORDS)
        builders.write_split(folder / "label", split, [[4 + int(n % 2), 2] for n in lengths[:, 0]], labels)
    return folder


def load(folder, split, task_class=GlueTask, config_class=GlueConfig, **settings):
    """The task, and its split."""
    tokens = {"init_token": WORDS.bos(), "separator_token": WORDS.eos()}
    config = config_class(data=str(folder), num_classes=2, seed=3, **tokens, **settings)
    config.regression_target = False
    task = task_class.setup_task(config)
    return task, task.load_dataset(split)


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
    theirs = rows(load(pairs, split, SentencePredictionTask, SentencePredictionConfig)[1])
    ours = rows(load(pairs, split, group_by_length=grouped)[1])
    assert ours == theirs and len(ours) == PAIRS
    if split == "train" and not grouped:
        assert list(ours) == list(theirs)  # the very batches of fairseq


def test_groups_of_about_one_length(pairs):
    for repeats in (1, 3):
        grouped = lengths(load(pairs, "train", group_by_length=True, repeat_times=repeats)[1])
        steps = grouped // LENGTH_GROUP
        assert (np.diff(steps) >= 0).all() and len(set(steps)) > 3
        assert (np.diff(grouped) < 0).any()  # at random within a group
    assert (np.diff(lengths(load(pairs, "train")[1]) // LENGTH_GROUP) < 0).any()
    assert (np.diff(lengths(load(pairs, "valid")[1])) >= 0).all()


def batches(task, **options):
    data = task.dataset("train")
    return task.get_batch_iterator(
        data, max_positions=task.max_positions(), ignore_invalid_inputs=True, seed=1, **options
    ).next_epoch_itr(shuffle=False)


def test_a_fine_tuning_of_repeated_mlm_repeats_the_input(pairs):
    theirs = rows(load(pairs, "train", SentencePredictionTask, SentencePredictionConfig)[1])
    task, _ = load(pairs, "train", RepeatedSentencePredictionTask, repeat_times=3, max_positions=90)
    assert task.max_positions() == 30
    seen = 0
    for batch in batches(task, max_sentences=4):
        net_input = batch["net_input"]
        assert batch["ntokens"] == net_input["src_lengths"].sum()
        for row, i in enumerate(batch["id"].tolist()):
            tokens, label = theirs[i]
            assert len(tokens) <= 30  # longer ones are filtered out, by their length before the repetition
            padding = [WORDS.pad()] * (net_input["src_tokens"].shape[1] - 3 * len(tokens))
            repeated = [token for token in tokens for _ in range(3)]
            assert net_input["src_tokens"][row].tolist() == repeated + padding
            assert net_input["src_lengths"][row] == 3 * len(tokens) and batch["target"][row].tolist() == label
            seen += 1
    assert seen == sum(len(tokens) <= 30 for tokens, _ in theirs.values()) > 10


def test_max_tokens_counts_the_copies(pairs):
    task, _ = load(pairs, "train", RepeatedSentencePredictionTask, repeat_times=4)
    for batch in batches(task, max_tokens=400):
        assert batch["net_input"]["src_tokens"].numel() <= 400
