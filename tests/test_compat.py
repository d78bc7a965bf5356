"""What the plugin changes in fairseq, part by part; tests/integration shows that whole runs work."""

import argparse
import errno
import itertools
import os
import pickle
import random
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils, options
from fairseq.data import data_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.optim.sgd import SGD
from omegaconf import OmegaConf

from fs_plugins import checkpoint_files, compat
from tests.support.full_disk import at_each_write

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


def save(folder, **content):
    """A checkpoint with what fairseq reads from any, and ``content``."""
    path = folder / "checkpoint.pt"
    history = {"optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 3}
    state = {"args": None, "cfg": None, "model": {}, "optimizer_history": [history]}
    state["extra_state"] = {"epoch": 1, "train_iterator": {"epoch": 1}}
    torch.save({**state, **content}, path)
    return path


def read(path, *overrides):
    with warnings.catch_warnings():
        compat.silence_known_warnings()  # again, as pytest has filters of its own
        return checkpoint_utils.load_checkpoint_to_cpu(str(path), *overrides)


def test_scores_of_numpy_are_read(tmp_path):
    for score in (np.float64(0.5), np.float32(0.5), np.int64(3), np.bool_(True)):
        path = save(tmp_path, best=score)
        loaded = read(path)["best"]
        assert loaded == score and type(loaded) is type(score)
        names, old = (b"numpy._core.multiarray", b"numpy.core.multiarray"), tmp_path / "old.pt"  # of NumPy 1
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(old, "w") as target:
            for name in source.namelist():
                target.writestr(name, source.read(name).replace(*names))
        assert names[1] in old.read_bytes() and read(old)["best"] == score


class Foreign:
    """Code that runs when the file is read without a check."""

    ran = False

    def __reduce__(self):
        return setattr, (Foreign, "ran", True)


def test_what_is_no_checkpoint_is_refused_and_nothing_runs(tmp_path):
    with pytest.raises(pickle.UnpicklingError, match="checkpoint.pt"):
        read(save(tmp_path, extra=Foreign()))
    assert not Foreign.ran
    for content in (b"", b"C1CCCCC1\nCCO\n"):
        (tmp_path / "text.pt").write_bytes(content)
        with pytest.raises(RuntimeError, match="text.pt"):
            read(tmp_path / "text.pt")


class Trainer:
    """Records the checkpoint that fairseq asks it for, and has none."""

    checkpoint_suffix = ""
    cfg = argparse.Namespace(model=None)

    def load_checkpoint(self, path, *args, **kwargs):
        self.asked = path

    def get_train_iterator(self, **kwargs):
        return argparse.Namespace(**kwargs)

    def lr_step(self, epoch):
        pass


def asked_for(save_dir, restore_file):
    """The checkpoint that a run with these flags asks for."""
    trainer = Trainer()
    flags = CheckpointConfig(save_dir=save_dir, restore_file=str(restore_file))
    checkpoint_utils.load_checkpoint(flags, trainer)
    return trainer.asked


def test_a_restore_file_must_exist_unless_it_is_the_runs_own(tmp_path):
    for save_dir in (None, "save"):
        with pytest.raises(FileNotFoundError, match=r"--restore-file .*lats\.pt"):
            asked_for(save_dir, tmp_path / "lats.pt")
    assert asked_for(str(tmp_path), tmp_path / "start.pt") == str(tmp_path / "start.pt")


@pytest.mark.parametrize("older", [False, True])
def test_a_checkpoint_of_another_model_is_warned_of(caplog, tmp_path, older):
    saved = argparse.Namespace(arch="exlm_base", ext_state_num=2, sparse_dag=False, dropout=0.1)
    path = save(tmp_path, args=saved) if older else save(tmp_path, cfg={"model": saved})
    trainer = Trainer()
    trainer.load_checkpoint = lambda file, *args, **kwargs: read(file) and None
    flags = CheckpointConfig(save_dir=str(tmp_path), restore_file=str(path))

    def said() -> list[str]:
        found = [record.getMessage() for record in caplog.records if record.name == checkpoint_files.__name__]
        caplog.clear()
        return found

    for k, warnings_of_ours in ((2, 0), (4, 1)):
        own = {"ext_state_num": k, "dropout": 0.0, "encoder_normalize_before": True}
        trainer.cfg = argparse.Namespace(model=argparse.Namespace(sparse_dag=False, **own))
        checkpoint_utils.load_checkpoint(flags, trainer)
        found = said()
        assert len(found) == warnings_of_ours and all("--ext-state-num 2" in line for line in found)
    read(path)  # not to train it
    assert said() == []


class Saved(Trainer):
    """Has a state that fairseq saves, in which each tensor holds the number of the update."""

    data_parallel_rank, should_save_checkpoint_on_current_rank = 0, True
    task = consolidate_optimizer = staticmethod(lambda: None)

    cfg = argparse.Namespace(optimization=argparse.Namespace(max_update=0))  # it goes on

    def save_checkpoint(self, path, extra_state):
        model = {str(i): torch.full((3000,), self.updates) for i in range(3)}
        checkpoint_utils.torch_persistent_save({"model": model, "extra_state": extra_state}, path)

    def get_num_updates(self):
        return self.updates

    end_of_epoch, state_dict, epoch = staticmethod(lambda: False), staticmethod(dict), 1

    def save(self, folder, updates):
        """As fairseq-train does after that update, whose score is the best."""
        vars(checkpoint_utils.save_checkpoint).pop("best", None)  # of another run
        self.updates, keep = updates, {"keep_interval_updates": 1, "keep_best_checkpoints": 1}
        flags = CheckpointConfig(save_dir=str(folder), save_interval_updates=1, **keep)
        checkpoint_utils.save_checkpoint(flags, self, self, 1 / updates)


def updates_in(folder) -> dict[str, int]:
    """The checkpoints of a folder, each with its update; all have to be whole."""
    tensors = {path.name: torch.load(path)["model"].values() for path in folder.glob("*.pt")}
    return {name: int(torch.stack([*values]).unique()) for name, values in tensors.items()}


def test_a_disk_that_is_full_for_a_moment(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "PAUSE", 0)
    folder, names = tmp_path / "save", []
    for at, error in at_each_write(folder, lambda at: Saved().save(folder, at)):
        assert error is None  # it was tried again
        names.append({path.name for path in folder.iterdir()})
        assert names[-1] == set(updates_in(folder)) and set(updates_in(folder).values()) == {at}
    assert len(names) > 8 and all(len(these) == 4 for these in names)  # by update, last and two best


def test_a_disk_that_stays_full(tmp_path, monkeypatch):
    monkeypatch.setattr(checkpoint_files, "PAUSE", 0)
    Saved().save(tmp_path, 1)
    before = updates_in(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", Mock(side_effect=OSError(errno.EDQUOT, "Disk quota exceeded")))
        with pytest.raises(OSError, match="quota"):
            Saved().save(tmp_path, 2)
    assert updates_in(tmp_path) == before and len(list(tmp_path.iterdir())) == 4


def test_kills_leave_a_whole_checkpoint(tmp_path):
    rng, (ready, tell) = random.Random(1), os.pipe()
    for first in range(100, 2100, 100):
        if not (child := os.fork()):
            for updates in itertools.count(first):
                Saved().save(tmp_path, updates)
                if updates == first:
                    os.write(tell, b"1")
        os.read(ready, 1)
        time.sleep(rng.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert updates_in(tmp_path)["checkpoint_last.pt"] >= first


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
