"""Scores of whole splits, whatever their batches; of several workers see tests/integration."""

import numpy as np
import pytest
import torch
from fairseq.data import IdDataset, NestedDictionaryDataset, RawLabelDataset, SortDataset
from fairseq.logging import metrics

from fs_plugins.finetuning.scored import NamedSplit, ScoredTask, predict


class Sums(ScoredTask):
    """The score of a split is the sum of its outputs, and is only asked for once."""

    called_with, metric = {"factor": 3}, "sum"

    def __init__(self, **sizes):
        super().__init__(None)
        self.sizes, self.scored = sizes, []

    def load_dataset(self, split, **kwargs):
        ids = np.arange(self.sizes[split])  # each is its own input, and the last one comes first
        rows = NestedDictionaryDataset({"id": IdDataset(), "net_input": {"x": RawLabelDataset(ids)}})
        self.datasets[split] = NamedSplit(SortDataset(rows, sort_order=[-ids]), split)
        return self.datasets[split]

    def score(self, split, ids, rows):
        assert (rows[:, 0] == 3.0 * ids).all() and rows.dtype == np.float64
        self.scored.append(split)
        return {"sum": rows.sum()}


class Model(torch.nn.Linear):
    """[B, 1]: the inputs, times a factor; NaN of that row which is broken."""

    broken = -1

    def forward(self, x, factor):
        return torch.where(x == self.broken, torch.nan, factor * x.float())[:, None], {}


def criterion(model, sample):
    model(**sample["net_input"], factor=3)
    return torch.zeros(()), len(sample["id"]), {"loss": 0}


def validated(task, model, split, batches) -> dict:
    """What is logged by the contexts of fairseq's trainer."""
    data = task.load_dataset(split)
    with metrics.aggregate(new_root=True) as of_split:
        for ids in batches:
            with metrics.aggregate("valid"):
                task.valid_step(data.collater([data[i] for i in ids]), model, criterion)
                with metrics.aggregate() as of_batch:
                    metrics.log_scalar("loss", 0)
                    of_batch.get_smoothed_values()
        return dict(of_split.get_smoothed_values())


def test_a_split_is_scored_once_whatever_its_batches():
    """The first batch comes twice, as to a worker that has run out of them."""
    model, task = Model(1, 1).eval(), Sums(valid=7, valid1=3)
    assert validated(task, model, "valid", [[5, 0], [6, 1, 3], [2, 4], [5, 0]])["sum"] == 3 * 21
    assert validated(task, model, "valid1", [range(3)])["sum"] == 3 * 3
    assert task.scored == ["valid", "valid1"] and not model._forward_hooks


def test_predictions_of_a_split_which_have_to_be_finite():
    model = Model(1, 1).eval()
    ids, rows = predict(Sums(test=9), model, "test", 4)
    assert ids.tolist() == list(range(9)) and rows.tolist() == [[3.0 * i] for i in range(9)]
    model.broken = 2
    with pytest.raises(ValueError, match="1 of 9 rows of test"):
        predict(Sums(test=9), model, "test", 4)
    with pytest.raises(ValueError, match="1 of 9 rows of valid"):
        validated(Sums(valid=9), model, "valid", [range(5), range(5, 9)])
