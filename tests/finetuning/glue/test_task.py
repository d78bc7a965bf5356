"""The task of GLUE: fairseq's ``sentence_prediction``, in another order."""

from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from fairseq.tasks.sentence_prediction import SentencePredictionConfig, SentencePredictionTask

from fs_plugins.finetuning.glue.task import GlueConfig, GlueTask
from tests.support import builders

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
    settings = {"regression_target": False, "num_classes": 2, **settings}
    tokens = {"init_token": WORDS.bos(), "separator_token": WORDS.eos()}
    config = config_class(data=str(folder), seed=3, **tokens, **settings)
    task = task_class.setup_task(config)
    return task, task.load_dataset(split)


def rows(dataset):
    """Row -> (tokens, class), in the order of the data set."""
    items = ((int(i), dataset[int(i)]) for i in dataset.ordered_indices())
    return {i: (one["net_input.src_tokens"].tolist(), one["target"].tolist()) for i, one in items}


@pytest.mark.parametrize("split", ["train", "valid"])
def test_rows_are_fairseqs_and_those_of_validation_by_length(pairs, split):
    theirs = rows(load(pairs, split, SentencePredictionTask, SentencePredictionConfig)[1])
    ours = rows(load(pairs, split)[1])
    assert ours == theirs and len(theirs) == PAIRS
    if split == "train":
        assert list(ours) == list(theirs)  # the very batches of fairseq
    else:
        assert (np.diff([len(tokens) for tokens, _ in ours.values()]) >= 0).all()


def test_a_fine_tuning_of_repeated_mlm_repeats_the_input(pairs):
    theirs = rows(load(pairs, "train", SentencePredictionTask, SentencePredictionConfig)[1])
    task, _ = load(pairs, "train", GlueTask, repeat_times=3, max_positions=90)
    assert task.max_positions() == 30
    limits = {"max_tokens": 300, "max_positions": task.max_positions(), "ignore_invalid_inputs": True}
    seen, iterator = 0, task.get_batch_iterator(task.dataset("train"), **limits)
    for batch in iterator.next_epoch_itr(shuffle=False):
        net_input = batch["net_input"]
        assert batch["ntokens"] == net_input["src_lengths"].sum() and batch["split"] == "train"
        assert net_input["src_tokens"].numel() <= 300
        for row, i in enumerate(batch["id"].tolist()):
            tokens, label = theirs[i]
            assert len(tokens) <= 30  # longer ones are filtered out, by their length before the repetition
            padding = [WORDS.pad()] * (net_input["src_tokens"].shape[1] - 3 * len(tokens))
            repeated = [token for token in tokens for _ in range(3)]
            assert net_input["src_tokens"][row].tolist() == repeated + padding
            assert net_input["src_lengths"][row] == 3 * len(tokens) and batch["target"][row].tolist() == label
            seen += 1
    assert seen == sum(len(tokens) <= 30 for tokens, _ in theirs.values()) > 10


@pytest.mark.parametrize(("names", "fits"), [("yes no", True), ("no yes", False), ("LABEL_0 LABEL_1", True)])
def test_classes_in_another_order_are_refused(pairs, names, fits):
    """Other names say nothing of the order."""
    task, _ = load(pairs, "valid")
    checkpoint = SimpleNamespace(outputs=SimpleNamespace(names=tuple(names.split())))
    with nullcontext() if fits else pytest.raises(ValueError, match="the model's classes are"):
        task.prepare_for(checkpoint)


@pytest.mark.parametrize("settings", [{}, {"no_shuffle": True}])
def test_scores_of_classes(pairs, settings):
    task, data = load(pairs, "valid", metrics="matthews,accuracy,f1", **settings)
    truth = np.array([label[0] for _, label in dict(sorted(rows(data).items())).values()])
    ids, predicted = np.arange(0, PAIRS, 2), np.random.default_rng(1).integers(0, 2, PAIRS)[::2]
    scores = task.score("valid", ids, np.eye(2)[predicted])
    assert list(scores) == ["matthews", "accuracy", "f1"] and task.metric == "matthews"
    assert scores["accuracy"] == (truth[ids] == predicted).mean() not in (0, 1)
    assert task.logged(scores) == {"score": 100 * scores["matthews"]}


def test_scores_of_numbers(pairs, tmp_path):
    (tmp_path / "label").mkdir()
    for name in ("input0", "input1"):
        (tmp_path / name).symlink_to(pairs / name)
    (tmp_path / "label" / "valid.label").write_text("".join(f"{i / 7}\n" for i in range(PAIRS)))
    task, _ = load(tmp_path, "valid", regression_target=True, num_classes=1)
    assert task.labels("valid", np.array([3, 70])).tolist() == [3 / 7, 10]
    scores = task.score("valid", np.arange(PAIRS), np.exp(np.arange(PAIRS) / 9)[:, None])
    assert scores == {"spearman": pytest.approx(1)}  # the default
    assert task.score("valid", np.arange(PAIRS), np.ones((PAIRS, 1))) == {"spearman": 0}  # not defined
    half = task.rows({}, torch.tensor([[1 / 3]]).half())
    assert half.dtype == torch.float64
