"""Tasks that score whole splits: their rows of predictions are collected over all batches and workers."""

import numpy as np
import torch
from fairseq import utils
from fairseq.data import BaseWrapperDataset, Dictionary
from fairseq.logging import meters, metrics
from fairseq.tasks import FairseqTask
from torch import Tensor

from fs_plugins.model_outputs import recorded_outputs


class ScoredTask(FairseqTask):
    """A task whose validations log scores of the whole split, by whatever criterion is its loss.

    A subclass has :meth:`rows`, :meth:`score` and :meth:`logged`; its batches have ``id`` [B] and ``split``
    (:class:`NamedSplit`).
    """

    # Attributes of a class:
    criterion: str  # the name of its loss
    # Attributes of a task:
    called_with: dict  # arguments of the model's call that gives the scored outputs, besides ``net_input``
    metric: str  # the one of :meth:`score` that counts
    dictionary: Dictionary  # includes ``<mask>``
    source_dictionary = target_dictionary = property(lambda self: self.dictionary)

    def prepare_for(self, checkpoint) -> None:
        """Takes from a trained model (a Checkpoint) what reading and scoring depend on. Raises ValueError if
        its outputs mean something else than the labels."""

    def rows(self, sample: dict, outputs: Tensor) -> Tensor:
        """Returns the rows [B, ...] float64 that are scored of a batch: of one shape in all batches of a
        split, so pad what has a length, with -inf. NaN and inf are refused."""
        return outputs.double()

    def score(self, split: str, ids: np.ndarray, rows: np.ndarray) -> dict[str, float]:
        """Returns the metrics of rows [N, ...] of a split, whose ids are [N]."""
        raise NotImplementedError

    def logged(self, scores: dict[str, float]) -> dict[str, float]:
        """Returns the metrics of :meth:`score` that validations log; of an empty dict the same names."""
        return {name: scores.get(name, np.nan) for name in [self.metric]}

    def valid_step(self, sample, model, criterion):
        with recorded_outputs(model) as outputs:
            result = super().valid_step(sample, model, criterion)
        split, rows = sample["split"], from_all_workers(_by_id(self, sample, outputs[0]))
        # Logged here, as in reduce_metrics fairseq would want the scores of each batch too. Named by the
        # split, as fairseq also adds up all splits of --valid-subset.
        key = f"_{split}"
        metrics.log_custom(lambda: RowsMeter(self, split), key, rows)
        for name in self.logged({}):
            metrics.log_derived(name, lambda logged, name=name: logged[key].score(name))
        return result


class NamedSplit(BaseWrapperDataset):
    """A data set whose batches say in ``split`` which split they are of."""

    def __init__(self, dataset, split: str):
        super().__init__(dataset)
        self.split = split

    def collater(self, samples):
        batch = self.dataset.collater(samples)
        return {**batch, "split": self.split} if batch else batch


class RowsMeter(meters.Meter):
    """The rows of a validation so far, and their scores, which are computed when somebody asks."""

    def __init__(self, task: ScoredTask, split: str):
        self.task, self.split = task, split
        self.reset()

    def reset(self):
        self.rows, self.scores = {}, None

    def update(self, rows: dict[int, np.ndarray]) -> None:
        self.rows |= rows
        self.scores = None

    def score(self, name: str) -> float:
        if self.scores is None:
            scores = self.task.score(self.split, *_stacked(self.split, self.rows))
            self.scores = self.task.logged(scores)
        return self.scores[name]

    @property
    def smoothed_value(self) -> float:
        return len(self.rows)


def from_all_workers(rows: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    """Returns the rows of all workers' batches, by their ids.

    fairseq's own way, logging outputs that are not summed, does not work without a GPU. A worker that has run
    out of batches repeats its first one: its rows replace themselves.
    """
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return rows
    parts = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(parts, rows)
    return {i: row for part in parts for i, row in part.items()}


@torch.no_grad()
def predict(task: ScoredTask, model, split: str, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids [N], ascending, and rows [N, ...] of a loaded split, by a model in evaluation mode.
    Raises ValueError if the model gives outputs that are not finite."""
    dataset, rows, device = task.dataset(split), {}, next(model.parameters()).device
    order = dataset.ordered_indices()
    for begin in range(0, len(order), batch_size):
        batch = dataset.collater([dataset[i] for i in order[begin : begin + batch_size]])
        batch = utils.move_to_cuda(batch, device) if device.type == "cuda" else batch
        outputs, _ = model(**batch["net_input"], **task.called_with)
        rows |= _by_id(task, batch, outputs)
    return _stacked(split, rows)


def _by_id(task: ScoredTask, sample: dict, outputs: Tensor) -> dict[int, np.ndarray]:
    return dict(zip(sample["id"].tolist(), task.rows(sample, outputs).cpu().numpy(), strict=True))


def _stacked(split: str, rows: dict[int, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    ids = np.array(sorted(rows))
    stacked = np.stack([rows[i] for i in ids.tolist()])
    broken = (np.isnan(stacked) | (stacked == np.inf)).reshape(len(ids), -1).any(1)
    if broken.any():
        raise ValueError(
            f"the model gives {broken.sum()} of {len(ids)} rows of {split} an output that is not finite: its "
            "training diverged, give it a lower --lr"
        )
    return ids, stacked
