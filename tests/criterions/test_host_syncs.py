"""How often a training step waits for the device to tell the host a number."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fs_plugins.criterions.nat_ctc_loss_mlm import NatCtcLossMLM
from fs_plugins.criterions.nat_dag_loss_mlm import NatDagLossMLM
from tests.criterions.batch import BATCH, WORDS
from tests.support import builders

SYNCS = {"_local_scalar_dense", "nonzero", "is_nonzero", "equal", "masked_select", "_unique2", "unique_dim"}


class Syncs(TorchDispatchMode):
    """Names of the operators that would wait on a GPU; of ``tolist``, which is none, by patching it."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.found = []
        to_list = torch.Tensor.tolist
        monkeypatch.setattr(torch.Tensor, "tolist", lambda t: self.found.append("tolist") or to_list(t))

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        by_mask = name.startswith("index") and any(
            isinstance(index, torch.Tensor) and index.dtype == torch.bool
            for arg in args
            if isinstance(arg, list | tuple)
            for index in arg
        )
        repeats = str(func) == "aten.repeat_interleave.Tensor"
        if name in SYNCS or by_mask or repeats:
            self.found.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("criterion", [NatDagLossMLM, NatCtcLossMLM])
def test_one_sync_forward_and_none_backward(monkeypatch, criterion):
    model = builders.exlm(WORDS, dropout=0.1, attention_dropout=0.1).train()
    with Syncs(monkeypatch) as syncs:
        loss, _, _ = criterion(builders.task(WORDS))(model, BATCH)
        assert syncs.found == ["tolist"]
        loss.backward()
    assert len(syncs.found) == 1
