"""Repairs of fairseq, one by one; tests/integration shows that whole runs work."""

import itertools
import subprocess
import sys
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from fairseq import options
from fairseq.data import data_utils, iterators
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.sgd import SGD
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask
from fairseq.trainer import Trainer
from omegaconf import OmegaConf

from fs_plugins.data.datasets import ChosenDataset
from tests.support import builders

FROM_IMPORT_TO_END = """
import atexit, logging, pathlib, sys, torch

def of_gloo():
    return sum("gloo" in path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm"))

atexit.register(lambda: print(of_gloo()))  # runs after those that are registered later
import fs_plugins
fs_plugins.register()
from fairseq.data.iterators import BufferedIterator
from fairseq.distributed import utils

assert logging.root.level == logging.WARNING and not logging.root.handlers
torch.set_num_threads(2)
x = torch.full((1 << 20,), 1e-30)
assert not (x * 1e-10).any() and (x * 1e-7).all()  # subnormal numbers are zero on all threads

torch.distributed.init_process_group("gloo", init_method="file://" + sys.argv[1], world_size=1, rank=0)

def train():
    trainer = [utils.get_global_group()]
    trainer.append(trainer)
    utils.all_reduce(torch.ones(1), trainer[0])

train()
assert of_gloo() or sys.platform != "linux"  # threads have their names in /proc

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


@pytest.mark.slow
def test_a_process_from_import_to_end(tmp_path):
    """It ends while batches are prepared, and no thread of gloo is left when Python ends."""
    command = [sys.executable, "-c", FROM_IMPORT_TO_END, tmp_path / "store"]
    process = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "0\n"


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
    with metrics.aggregate("valid"):
        metrics.log_concat_tensor("rows", torch.ones(3))
    state = metrics.state_dict()
    metrics.reset()
    metrics.load_state_dict(state)
    assert metrics.get_meter("valid", "rows") is None
    assert metrics.get_meter("default", "wall").elapsed_time > 0  # it runs
    metrics.reset()


@pytest.mark.parametrize("flag", ["--bf16", "--memory-efficient-bf16"])
def test_bf16_is_for_gpus_too(flag, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    args = options.parse_args_and_arch(options.get_training_parser(), ["data", "--arch", "exlm_tiny", flag])
    assert args.bf16 and not args.tpu


def test_gradients_of_amp_are_unscaled_once_and_their_scale_follows():
    """Halved by an overflow, whose update is left out, and doubled after three without."""
    weight = torch.nn.Parameter(torch.zeros(2))
    inner = SGD(OmegaConf.create({"lr": [1.0], "momentum": 0.0, "weight_decay": 0.0}), [weight])
    optimizer = AMPOptimizer.__new__(AMPOptimizer)
    optimizer.fp32_optimizer, optimizer.min_loss_scale = inner, 1e-4
    optimizer._grad_scaler = torch.amp.GradScaler("cpu", init_scale=128.0, growth_interval=3)
    found = []
    for factor in (1.0, float("inf"), 1.0, 1.0, 1.0):
        optimizer.zero_grad()
        optimizer.backward((weight * torch.tensor([1.0, 3.0]) * factor).sum())
        optimizer.clip_grad_norm(0.0)
        optimizer.step()
        found.append((optimizer.scaler.get_scale(), *weight.tolist()))
    scales, updates = (128, 64, 64, 64, 128), (1, 1, 2, 3, 4)
    assert found == [(scale, -n, -3 * n) for scale, n in zip(scales, updates, strict=True)]


class Items(torch.utils.data.Dataset):
    def __getitem__(self, index):
        return index


def batches_of(count, shards, shard):
    batches = [(2 * i, 2 * i + 1) for i in range(count)]
    return iterators.EpochBatchIterator(Items(), list, batches, seed=3, num_shards=shards, shard_id=shard)


@pytest.mark.parametrize("steps", [(3, 2), (5, 1), (0, 3), (2, 0), (1, 4)])
@pytest.mark.parametrize("workers", [(1, 2, 1), (2, 1, 3), (3, 4, 2), (4, 2, 2), (1, 5, 3)])
@pytest.mark.parametrize("count", [23, 24, 25])
def test_an_epoch_on_changing_numbers_of_workers_has_every_sample_once(steps, workers, count):
    seen, state = [], None
    for stop, shards in zip((*steps, None), workers, strict=True):
        states = []
        for shard in range(shards):
            iterator = batches_of(count, shards, shard)
            if state is not None:
                iterator.load_state_dict(state)
            batches = iterator.next_epoch_itr()
            for batch in batches if stop is None else itertools.islice(batches, stop):
                seen += batch
            states.append(iterator.state_dict())
        assert all(other == states[0] for other in states)
        state = states[0]
    assert sorted(seen) == list(range(2 * count))
    assert state["epoch"] == 2 and state["iterations_in_epoch"] == 0


def test_later_epochs_of_a_resumed_run_count_from_their_own_start():
    begun, resumed = batches_of(24, 1, 0), batches_of(24, 4, 0)
    [*itertools.islice(begun.next_epoch_itr(), 6)]
    resumed.load_state_dict(begun.state_dict())
    [*resumed.next_epoch_itr()]
    [*itertools.islice(resumed.next_epoch_itr(), 3)]
    assert resumed.state_dict()["seen_batches"] == 3 * 4


def test_batches_of_another_size_are_resumed_at_the_same_share():
    iterator = batches_of(20, 1, 0)
    for _ in itertools.islice(iterator.next_epoch_itr(), 10):
        pass
    resumed = batches_of(10, 2, 1)
    resumed.load_state_dict(iterator.state_dict())
    assert len([*filter(None, resumed.next_epoch_itr())]) == 2


def test_validations_see_the_same_samples_on_any_number_of_workers():
    """Of all lengths: so many sentences, or, if batches are of so many tokens, so many batches."""

    def seen(workers, *sizes):
        found, batches = [], np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])
        for i in range(workers):
            trainer = MagicMock(data_parallel_world_size=workers, data_parallel_rank=i)
            trainer.cfg.dataset.max_valid_steps = 4
            made = iterators.EpochBatchIterator(Items(), list, batches, num_shards=workers, shard_id=i)
            trainer.task.get_batch_iterator.return_value = made
            chosen = Trainer.get_valid_iterator(trainer, "valid").next_epoch_itr(shuffle=False)
            found += [item for batch in itertools.islice(chosen, 5) for item in batch]
        return sorted(found)

    for workers in (1, 2, 3):
        assert seen(workers, *[2] * 9) == [18 * i // 10 for i in range(10)]
        assert seen(workers, *[16] * 5, 8, 4) == [92 * i // 80 for i in range(80)]
        assert seen(workers, 16, 16, 16, 16, 8, 4) == [*range(76)]
        assert seen(workers, 9, 5, 2, 1, 1, 1) == [*range(9 + 5 + 2), 16, 17]
        assert seen(workers, 9, 8, *[1] * 10) == [*range(9), 17, 19, 22, 24]


def test_empty_sentences_are_no_samples(tmp_path):
    symbols = builders.dictionary(5)
    rows = [[5, 6], [], [7], [], [5, 5, 5]]
    builders.write_split(tmp_path, "train", [[*row, 2] for row in rows], symbols)
    cfg = MaskedLMConfig(data=str(tmp_path), sample_break_mode="eos", tokens_per_sample=8, seed=1)
    task = MaskedLMTask.setup_task(OmegaConf.structured(cfg))
    task.load_dataset("train")
    samples = [task.datasets["train"][i] for i in range(len(task.datasets["train"]))]
    lengths = sorted(len(sample["net_input.src_tokens"]) for sample in samples)
    assert lengths == sorted(len(row) + 2 for row in rows if row)


def test_sentences_are_read_ahead_by_their_own_numbers():
    dataset = MagicMock()
    ChosenDataset(dataset, np.array([4, 7, 9])).prefetch([0, 2])
    assert [*dataset.prefetch.call_args[0][0]] == [4, 9]
