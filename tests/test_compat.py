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
from fairseq.data import TokenBlockDataset, data_utils
from fairseq.dataclass.configs import CheckpointConfig
from fairseq.distributed.utils import _split_tensors_from_obj
from fairseq.logging import metrics

from fs_plugins import checkpoint_files, compat
from tests.support.full_disk import at_each_write


class Sentences(torch.utils.data.Dataset):
    """Sentences of the given lengths."""

    def __init__(self, *lengths):
        self.sizes = np.array(lengths)

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, index):
        return torch.arange(self.sizes[index])


def test_subnormal_numbers_are_zero_on_all_threads():
    script = (
        "import torch, fs_plugins; torch.set_num_threads(2); x = torch.full((1 << 20,), 1e-30);"
        "assert not (x * 1e-10).any() and (x * 1e-7).all()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def test_break_mode_eos_which_uses_a_name_that_numpy_removed():
    data = Sentences(3, 4, 1)
    blocks = TokenBlockDataset(data, data.sizes, None, pad=1, eos=2, break_mode="eos")
    assert [len(block) for block in blocks] == [3, 4, 1]


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 20])
@pytest.mark.parametrize("limits", [{"max_sentences": 8}, {"max_tokens": 60}])
def test_batches_hold_every_sentence(count, limits):
    sizes = np.full(count, 5)
    batches = data_utils.batch_by_size(
        np.arange(count)[::-1],
        num_tokens_fn=None,
        num_tokens_vec=sizes,
        required_batch_size_multiple=8,
        **limits,
    )
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


ENDS_WHILE_LOADING = """
import torch
import fs_plugins
from fairseq.data.iterators import BufferedIterator

class Endless:
    def __len__(self):
        return 1_000_000

    def __iter__(self):
        while True:
            yield [torch.randn(200, 200) @ torch.randn(200, 200) for _ in range(5)]

next({})
print("end")
"""


@pytest.mark.parametrize("size", [1, 1000], ids=["waiting for room", "at work"])
def test_python_ends_while_batches_are_prepared(size):
    script = ENDS_WHILE_LOADING.format(f"BufferedIterator({size}, Endless())")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ended.returncode, ended.stdout) == (0, "end\n"), ended.stderr


@pytest.mark.parametrize("score", [np.float64(0.5), np.float32(0.5), np.int64(3), np.bool_(True)])
def test_scores_of_numpy_are_read(score, tmp_path):
    loaded = read(save(tmp_path, best=score))["best"]
    assert loaded == score and type(loaded) is type(score)


def test_scores_as_numpy_1_wrote_them_are_read(tmp_path):
    path = save(tmp_path, best=np.float64(0.5))
    old = tmp_path / "old.pt"
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(old, "w") as target:
        for name in source.namelist():
            target.writestr(
                name, source.read(name).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")
            )
    assert old.read_bytes() != path.read_bytes() and b"numpy.core.multiarray" in old.read_bytes()
    assert read(old)["best"] == 0.5


def test_what_the_first_worker_sends_the_others_is_read(tmp_path):
    """Configuration as OmegaConf, placeholders for tensors."""
    flags = {"lr": [1e-3], "task": {"data": "bin", "seed": 1, "ratio": 0.5, "skip": True, "none": None}}
    state = read(save(tmp_path, cfg={**flags, "model": argparse.Namespace(k=4)}, model={"w": torch.ones(2)}))
    tensors = []
    torch.save(_split_tensors_from_obj(state, tensors), tmp_path / "sent.pt")
    received = torch.load(tmp_path / "sent.pt")
    assert received["cfg"] == state["cfg"] and received["cfg"].task.data == "bin"
    assert received["model"]["w"].index == 0 and torch.equal(tensors[0], torch.ones(2))


class Foreign:
    """Code that runs when the file is read without a check."""

    ran = False

    def __reduce__(self):
        return setattr, (Foreign, "ran", True)


def test_other_objects_are_refused_with_a_hint_and_nothing_runs(tmp_path):
    path = save(tmp_path, extra=Foreign())
    with pytest.raises(
        pickle.UnpicklingError, match="checkpoint.pt holds Python objects .*If you trust"
    ) as caught:
        read(path)
    assert "Weights only load failed" in str(caught.value.__cause__)
    assert not Foreign.ran


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


@pytest.mark.parametrize("save_dir", [None, "save"])
def test_a_restore_file_elsewhere_must_exist(save_dir, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"--restore-file .*lats\.pt: there is no such file"):
        asked_for(save_dir, tmp_path / "lats.pt")


def test_a_restore_file_in_the_runs_own_folder_need_not_exist(tmp_path):
    assert asked_for(str(tmp_path), tmp_path / "start.pt") == str(tmp_path / "start.pt")


@pytest.mark.parametrize("older", [False, True])
def test_a_checkpoint_of_another_model_is_warned_of(caplog, tmp_path, older):
    saved = argparse.Namespace(arch="exlm_base", ext_state_num=2, sparse_dag=False, dropout=0.1)
    path = save(tmp_path, args=saved) if older else save(tmp_path, cfg={"model": saved})
    trainer = Trainer()
    trainer.load_checkpoint = lambda file, *args, **kwargs: read(file) and None
    flags = CheckpointConfig(save_dir=str(tmp_path), restore_file=str(path))
    for k, said in ((2, False), (4, True)):
        model = argparse.Namespace(
            ext_state_num=k, sparse_dag=False, dropout=0.0, encoder_normalize_before=True
        )
        trainer.cfg = argparse.Namespace(model=model)
        checkpoint_utils.load_checkpoint(flags, trainer)
        found = f"{path} was another model: --ext-state-num 2 in the checkpoint, 4 here"
        warnings_of_ours = [
            one.getMessage() for one in caplog.records if one.name == checkpoint_files.__name__
        ]
        assert warnings_of_ours == ([found] if said else [])
    caplog.clear()
    read(path)  # not to train it
    assert not [one for one in caplog.records if one.name == checkpoint_files.__name__]


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


@pytest.mark.parametrize("content", [b"", b"C1CCCCC1\nCCO\n"])
def test_what_is_no_checkpoint_is_told(content, tmp_path):
    (tmp_path / "text.pt").write_bytes(content)
    with pytest.raises(RuntimeError, match="text.pt is cut short, or no checkpoint"):
        read(tmp_path / "text.pt")
