"""Checkpoints as fairseq saves and reads them with the plugin."""

import errno
import io
import itertools
import os
import pickle
import random
import signal
import time
import warnings
import zipfile
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import CheckpointConfig

from fs_plugins import files
from fs_plugins.fairseq_patches import messages, saving
from tests.support import builders


def save(folder, **content):
    """A checkpoint with what fairseq reads from any, and ``content``."""
    name = {"_name": "masked_lm"}
    return builders.save_checkpoint(folder / "a.pt", {}, {"arch": "mlm_tiny"}, name, name, **content)


def read(path):
    with warnings.catch_warnings():
        messages.silence_known_warnings()  # again, as pytest has filters of its own
        return checkpoint_utils.load_checkpoint_to_cpu(str(path))


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


def test_nothing_of_a_checkpoint_runs(tmp_path):
    with pytest.raises(pickle.UnpicklingError):
        read(save(tmp_path, extra=Foreign()))
    assert not Foreign.ran


def test_the_classes_that_a_checkpoint_may_hold():
    """All of them: none does anything but hold what a file says."""
    plain = "Namespace scalar dtype Float32DType Float64DType Int64DType BoolDType"
    sent = "_TensorPlaceholder DictConfig ListConfig AnyNode ContainerMetadata Metadata Any"
    sent += " defaultdict dict list int float str bool"
    entries = (*saving.SETTINGS, *saving.SCORES, *saving.BROADCAST)
    classes = [entry[0] if isinstance(entry, tuple) else entry for entry in entries]
    assert {one.__name__ for one in classes} == {*plain.split(), *sent.split()}


def asked_for(save_dir, **flags):
    """Returns the checkpoint that a run with these flags asks for."""
    trainer = MagicMock(checkpoint_suffix="", **{"load_checkpoint.return_value": None})
    flags = {name: str(value) for name, value in flags.items()}
    checkpoint_utils.load_checkpoint(CheckpointConfig(save_dir=str(save_dir), **flags), trainer)
    return trainer.load_checkpoint.call_args.args[0]


def test_a_run_starts_from_a_file_or_not_at_all(tmp_path):
    folder, start = tmp_path / "export", tmp_path / "start.pt"
    folder.mkdir()
    for path in (tmp_path / "lats.pt", folder):
        for flag in ("restore_file", "finetune_from_model", "continue_once"):
            with pytest.raises(FileNotFoundError, match=f"{path} is not a file"):
                asked_for(folder, **{flag: path})
    start.touch()
    assert asked_for(folder, finetune_from_model=start) == str(start)
    mine = tmp_path / "mine.pt"  # yet to be saved
    assert asked_for(tmp_path, restore_file=mine) == str(mine)
    (folder / "checkpoint_last.pt").touch()
    with pytest.raises(FileNotFoundError, match="checkpoint_1_99.pt is not a file"):  # mistyped
        asked_for(folder, restore_file=folder / "checkpoint_1_99.pt")
    resumed = asked_for(folder, finetune_from_model=tmp_path / "gone.pt")
    assert resumed == str(folder / "checkpoint_last.pt")


def save_after(updates, folder):
    """As fairseq-train does after that update, whose score is the best; tensors hold the update's number."""
    vars(checkpoint_utils.save_checkpoint).pop("best", None)  # of another run

    def save_state(path, extra_state):
        model = {str(i): torch.full((3000,), updates) for i in range(3)}
        checkpoint_utils.torch_persistent_save({"model": model, "extra_state": extra_state}, path)

    trainer, iterator = MagicMock(data_parallel_rank=0, checkpoint_suffix=""), MagicMock(epoch=1)
    trainer.save_checkpoint, trainer.get_num_updates.return_value = save_state, updates
    trainer.cfg.optimization.max_update = 0  # it goes on
    iterator.end_of_epoch.return_value, iterator.state_dict.return_value = False, {}
    keep = {"save_interval_updates": 1, "keep_interval_updates": 1, "keep_best_checkpoints": 1}
    flags = CheckpointConfig(save_dir=str(folder), **keep)
    checkpoint_utils.save_checkpoint(flags, trainer, iterator, 1 / updates)


def updates_in(folder) -> dict[str, int]:
    """The checkpoints of a folder, each with its update; all have to be whole."""
    tensors = {path.name: torch.load(path)["model"].values() for path in folder.glob("*.pt")}
    return {name: int(torch.stack([*values]).unique()) for name, values in tensors.items()}


class Full(io.FileIO):
    """A file on a disk that is full for a moment: of all writes, number ``at`` fails halfway."""

    at = 0

    def write(self, content):
        Full.at -= 1
        if Full.at:
            return super().write(content)
        super().write(memoryview(content)[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_for_a_moment(tmp_path, monkeypatch):
    """Whatever is not saved, all that has its name is whole: by update, last and two best."""
    save_after(1, tmp_path)
    monkeypatch.setattr(files, "open", Full, raising=False)
    failed, whole = 0, False
    while not whole:
        Full.at, update = failed + 1, failed + 2
        try:
            save_after(update, tmp_path)
        except (OSError, RuntimeError, ValueError) as error:
            assert "cannot write" in str(error)
        whole = Full.at > 0
        failed += not whole
        names = {path.name for path in tmp_path.iterdir()}
        assert names == set(updates_in(tmp_path)) and len(names) >= 4
        assert max(updates_in(tmp_path).values()) <= update
    assert failed > 8 and updates_in(tmp_path)["checkpoint_last.pt"] == update


def test_kills_leave_a_whole_checkpoint(tmp_path):
    rng, (ready, tell) = random.Random(1), os.pipe()
    for first in range(100, 2100, 100):
        if not (child := os.fork()):
            for updates in itertools.count(first):
                save_after(updates, tmp_path)
                if updates == first:
                    os.write(tell, b"1")
        os.read(ready, 1)
        time.sleep(rng.uniform(0, 0.03))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert updates_in(tmp_path)["checkpoint_last.pt"] >= first
