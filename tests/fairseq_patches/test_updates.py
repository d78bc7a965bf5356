"""Updates give the numbers of fairseq's own code in fewer operators; test_pretended_card.py counts waits."""

from unittest import mock

import pytest
import torch
from fairseq import utils
from fairseq.optim.fp16_optimizer import FP16Optimizer, _FP16OptimizerMixin
from omegaconf import OmegaConf
from torch.utils._python_dispatch import TorchDispatchMode

SHAPES = [(5, 3), (7,), (1, 2, 3), (4, 2)]
OWN = ["_sync_fp16_grads_to_fp32", "_sync_fp32_params_to_fp16", "zero_grad"]


def make(precision: str, name: str, parameters) -> FP16Optimizer:
    optimizer = {"_name": name, "adam_betas": "(0.8, 0.9)", "adam_eps": 1e-6, "weight_decay": 0.1}
    optimizer |= {"lr": [0.03]}
    optimizer |= {"use_old_adam": False, "fp16_adam_stats": False, "tpu": False} if name == "adam" else {}
    common = {"bf16": precision == "bf16", "fp16_no_flatten_grads": precision == "fp16 by parameter"}
    common |= {"fp16_scale_window": 2, "fp16_init_scale": 64, "fp16_scale_tolerance": 0.0}
    common |= {"threshold_loss_scale": None, "min_loss_scale": 1e-4}
    cfg = {"optimizer": optimizer, "common": common, "optimization": {"update_freq": [2]}}
    with mock.patch("torch.cuda.current_device", lambda: None):  # where tensors on a CPU are
        return FP16Optimizer.build_optimizer(OmegaConf.create(cfg), parameters)


def train(precision: str, name: str, clip: float, found: list) -> list[torch.Tensor]:
    """Seven updates of two steps each; the fourth overflows, and one parameter lacks a gradient at times."""
    generator = torch.Generator().manual_seed(3)
    kind = torch.bfloat16 if precision == "bf16" else torch.float16
    parameters = [torch.nn.Parameter(torch.randn(s, generator=generator).to(kind)) for s in SHAPES]
    trained = make(precision, name, parameters)
    for update in range(7):
        trained.zero_grad()
        assert all(p.grad is None for p in parameters)
        for _ in range(2):
            loss = sum((p * torch.randn(p.shape, generator=generator).to(kind)).sum() for p in parameters[:3])
            loss = loss + (parameters[3].sum() if update % 2 else 0.0)
            trained.backward(loss * (float("inf") if update == 3 and trained.scaler else 1.0))
        trained.multiply_grads(1 / 6)
        try:
            found.append(float(trained.clip_grad_norm(clip)))
            trained.step()
        except OverflowError:
            found.append(trained.scaler.loss_scale)
    return [p.detach().clone() for p in parameters]


@pytest.mark.parametrize("clip", [0.0, 0.7])
@pytest.mark.parametrize("optimizer", ["adam", "fused_adamw"])
@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp16 by parameter"])
def test_half_precision_is_trained_as_by_fairseq(precision, optimizer, clip, monkeypatch):
    """Bitwise: norms, skipped updates, scales, parameters."""
    norms, expected = [], []
    mine = train(precision, optimizer, clip, norms)
    for owner, name in [*((_FP16OptimizerMixin, name) for name in OWN), (utils, "clip_grad_norm_")]:
        monkeypatch.setattr(owner, name, getattr(owner, name).__wrapped__)
    monkeypatch.setattr(utils, "multi_tensor_l2norm_available", False)
    theirs = train(precision, optimizer, clip, expected)
    assert norms == expected and len(set(norms)) == 7
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


class Operators(TorchDispatchMode):
    """Counts the calls of operators but views, which run nothing on a GPU."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("precision", ["bf16", "fp16", "fp16 by parameter"])
def test_an_update_has_fewer_operators_than_parameters(precision):
    kind = torch.bfloat16 if precision == "bf16" else torch.float16
    parameters = [torch.nn.Parameter(torch.ones(3, dtype=kind)) for _ in range(80)]
    trained = make(precision, "fused_adamw", parameters)
    for _ in range(2):  # the first one makes moments
        trained.backward(torch.stack(parameters).sum())
        with Operators() as operators:
            trained.multiply_grads(1 / 6)
            trained.clip_grad_norm(1.0)
            trained.step()
            trained.zero_grad()
    assert operators.count < 50
