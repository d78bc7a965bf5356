"""Repairs of fairseq, one by one; tests/integration shows that whole runs work."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import data_utils
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.sgd import SGD
from omegaconf import OmegaConf

FROM_IMPORT_TO_END = """
import atexit, logging, pathlib, sys, torch

def of_gloo():
    return sum("gloo" in path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm"))

atexit.register(lambda: print(of_gloo()))  # runs after those that are registered later
import fs_plugins
from fairseq.data.iterators import BufferedIterator
from fairseq.distributed import utils

print(logging.root.level, logging.root.handlers)
torch.set_num_threads(2)
x = torch.full((1 << 20,), 1e-30)
print((x * 1e-10).any().item(), (x * 1e-7).all().item())

torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], world_size=1, rank=0)

def train():
    trainer = [utils.get_global_group()]
    trainer.append(trainer)
    utils.all_reduce(torch.ones(1), trainer[0])

train()
print(of_gloo())

class Endless:
    def __len__(self):
        return 1_000_000

    def __iter__(self):
        while True:
            yield [torch.randn(200, 200) @ torch.randn(200, 200) for _ in range(5)]

loaders = [BufferedIterator(size, Endless()) for size in (1, 1000)]  # waits for room; is at work
for loader in loaders:
    next(loader)
"""


def test_a_process_from_import_to_end(tmp_path):
    """It ends while batches are prepared."""
    command = [sys.executable, "-c", FROM_IMPORT_TO_END, tmp_path / "store"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    logger, numbers, there, left = process.stdout.splitlines()
    assert logger == "30 []", "the root logger is not left alone"
    assert numbers == "False True", "subnormal numbers are not zero on all threads"
    if sys.platform == "linux":  # threads have their names in /proc
        assert int(there) > 0 and int(left) == 0, "a thread of gloo is left when Python ends"


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 20])
@pytest.mark.parametrize("limits", [{"max_sentences": 8}, {"max_tokens": 60}])
def test_batches_hold_every_sentence(count, limits):
    sizes = np.full(count, 5)
    limits = {**limits, "num_tokens_vec": sizes, "required_batch_size_multiple": 8}
    batches = data_utils.batch_by_size(np.arange(count)[::-1], num_tokens_fn=None, **limits)
    assert [index for batch in batches for index in batch] == list(range(count))[::-1]
    assert all(0 < len(batch) <= 8 for batch in batches)
    assert all(len(batch) == 8 for batch in batches[:-1])


def test_meters_of_a_resumed_run():
    metrics.reset()
    metrics.log_start_time("wall", priority=790, round=0)
    with metrics.aggregate("train"):
        metrics.log_scalar("loss", 2.0)
    with metrics.aggregate("valid"):
        metrics.log_concat_tensor("rows", torch.ones(3))
    state = metrics.state_dict()
    assert {"default", "train", "valid"} <= set(state)
    metrics.reset()
    metrics.load_state_dict(state)
    assert metrics.get_smoothed_value("train", "loss") == 2
    assert metrics.get_meter("valid", "rows") is None
    assert metrics.get_meter("default", "wall").elapsed_time > 0  # it runs
    metrics.reset()


@pytest.mark.parametrize(
    ("flags", "gpu", "tpu"),
    [(["--bf16"], True, False), (["--memory-efficient-bf16"], False, False), (["--tpu"], False, True)],
)
def test_bf16_is_for_gpus_too(flags, gpu, tpu, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpu)
    args = options.parse_args_and_arch(options.get_training_parser(), ["data", "--arch", "exlm_tiny", *flags])
    assert args.tpu == tpu and args.bf16 == (not tpu)


def test_gradients_of_amp_are_unscaled_once():
    weight = torch.nn.Parameter(torch.zeros(2))
    inner = SGD(OmegaConf.create({"lr": [1.0], "momentum": 0.0, "weight_decay": 0.0}), [weight])
    optimizer = AMPOptimizer.__new__(AMPOptimizer)
    optimizer.fp32_optimizer, optimizer.min_loss_scale = inner, 1e-4
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    optimizer.backward((weight * torch.tensor([1.0, 3.0])).sum())
    optimizer.clip_grad_norm(0.0)
    optimizer.step()
    assert weight.tolist() == [-1.0, -3.0]
