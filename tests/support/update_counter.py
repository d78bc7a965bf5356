"""Operators of an update after its last backward pass, and how often it waits for the GPU to tell a number.

A trainer of fairseq's updates exlm_base, of which all but the number of parameters is small. Counted is what
a GPU would do, on a CPU: numbers that an update has read from the GPU once are on the CPU from then on.
"""

from unittest import mock

from fairseq import options
from fairseq.criterions import build_criterion
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models import build_model
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.trainer import Trainer
from step_costs import OperatorCounter
from torch import Tensor, ops
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

import fs_plugins

fs_plugins.register()

WAITING = ("_local_scalar_dense", "nonzero", "is_nonzero", "equal")
SMALL = "--encoder-embed-dim 24 --encoder-ffn-embed-dim 48 --encoder-attention-heads 2 --max-positions 256"


class UpdateCounter(OperatorCounter):
    """Counts the operators on tensors that would be on a GPU, and in ``waits`` those that wait for it."""

    def __init__(self):
        super().__init__()
        self.waits, self._on_host = 0, WeakIdKeyDictionary()

    def __enter__(self):
        self._patch = mock.patch.object(Tensor, "cpu", lambda tensor: self._to_host(tensor))
        self._patch.start()
        return super().__enter__()

    def __exit__(self, *error):
        self._patch.stop()
        return super().__exit__(*error)

    def _to_host(self, tensor: Tensor) -> Tensor:
        self.waits += tensor not in self._on_host
        self._on_host[copy := tensor.detach()] = True
        return copy

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        given = [t for t in tree_leaves((args, kwargs)) if isinstance(t, Tensor)]
        made_here = func is ops.aten.lift_fresh.default  # made from a number in Python
        if made_here or (given and all(t in self._on_host for t in given)):
            result = func(*args, **(kwargs or {}))
            self._on_host.update((t, True) for t in tree_leaves(result) if isinstance(t, Tensor))
            return result
        self.waits += func.overloadpacket.__name__ in WAITING
        return super().__torch_dispatch__(func, types, args, kwargs)


def make_trainer(precision: str, optimizer: str, dictionary, *flags: str) -> Trainer:
    """A trainer of fairseq's, on the CPU."""
    words = f"none --cpu --task masked_lm --criterion nat_dag_loss_mlm --arch exlm_base --lr 1e-3 {SMALL}"
    words = [*words.split(), "--optimizer", optimizer, *flags]
    words += [] if precision == "fp32" else [f"--{precision}"]
    cfg = convert_namespace_to_omegaconf(options.parse_args_and_arch(options.get_training_parser(), words))
    task = MaskedLMTask(cfg.task, dictionary)
    trainer = Trainer(cfg, task, build_model(cfg.model, task), build_criterion(cfg.criterion, task))
    # float16 has one flat tensor for each GPU, by its number; tensors on a CPU have none
    with mock.patch("torch.cuda.current_device", lambda: None):
        trainer.optimizer  # noqa: B018  (builds it)
    return trainer


def count(trainer: Trainer, batch: dict) -> UpdateCounter:
    """What an update that is not the first one costs, and clearing its gradients."""
    trainer.train_step([batch])
    counter, train_step = UpdateCounter(), trainer.task.train_step

    def uncounted(*args, **kwargs):
        with _disable_current_modes():
            return train_step(*args, **kwargs)

    trainer.zero_grad()  # a first time, for nothing
    with mock.patch.object(trainer.task, "train_step", uncounted), counter:
        trainer.train_step([batch])
    return counter
