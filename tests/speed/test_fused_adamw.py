"""PyTorch's fused AdamW as fairseq's trainer uses it."""

from copy import deepcopy

import pytest
import torch
from fairseq.optim import OPTIMIZER_DATACLASS_REGISTRY, build_optimizer
from omegaconf import OmegaConf

import fs_plugins

fs_plugins.register()


def config(name: str, **flags):
    config = OmegaConf.structured(OPTIMIZER_DATACLASS_REGISTRY[name])
    flags = {"tpu": False} | flags if "tpu" in config else flags
    return OmegaConf.merge(config, {"_name": name, "lr": [0.01], **flags})


def train(optimizer, parameters, updates: int) -> None:
    generator = torch.Generator().manual_seed(1)
    for _ in range(updates):
        for p in parameters:
            p.grad = torch.randn(p.shape, generator=generator)
        optimizer.step()


def parameters() -> list:
    generator = torch.Generator().manual_seed(0)
    return [torch.nn.Parameter(torch.randn(s, generator=generator)) for s in [(5, 3), (7,), (1, 2, 3)]]


@pytest.mark.parametrize("eps", [0.0, 1e-6])
def test_updates_are_those_of_fairseqs_adam(eps):
    """Equal without epsilon; its place matters only while moments are as small as it is."""
    results, flags = [], {"adam_betas": "(0.9,0.98)", "weight_decay": 0.2, "adam_eps": eps}
    for name in ("adam", "fused_adamw"):
        results.append(parameters())
        train(build_optimizer(config(name, **flags), results[-1]), results[-1], 30)
    for a, b, start in zip(*results, parameters(), strict=True):
        assert not torch.allclose(a, start, atol=0.05)
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6 if eps == 0 else 1e-5)


def test_resumes_with_other_settings():
    """State goes on, bitwise; learning rate and betas are those of the new run."""
    one, other = parameters(), parameters()
    first = build_optimizer(config("fused_adamw"), one)
    train(first, one, 5)
    train(build_optimizer(config("fused_adamw"), other), other, 5)
    again = build_optimizer(config("fused_adamw", adam_betas="(0.5, 0.6)", adam_eps=1e-3), other)
    again.load_state_dict(deepcopy(first.state_dict()), again.optimizer_config)
    assert again.optimizer.param_groups[0]["betas"] == (0.5, 0.6)
    again.load_state_dict(deepcopy(first.state_dict()), first.optimizer_config)
    train(first, one, 5)
    train(again, other, 5)
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
