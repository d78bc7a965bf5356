"""What released fairseq (0.12) needs on current Python, NumPy and torch; errors where its own do not help."""

import argparse
import atexit
import collections
import contextlib
import importlib.metadata
import importlib.util
import logging
import os
import pickle
import re
import shutil
import sys
import time
import typing
import warnings
import weakref
import zipfile
from collections.abc import Callable
from functools import partial, wraps
from queue import Empty
from typing import IO

import numpy as np
import torch

from fs_plugins import files

logger = logging.getLogger(__name__)
PAUSE = 2.5  # seconds before a checkpoint that could not be saved is tried again, as in fairseq


def apply() -> None:
    """Makes fairseq work; called once, when the plugin is imported."""
    flush_subnormal_numbers()
    hide_foreign_torchaudio()
    restore_numpy_name()
    keep_last_batch()
    tell_loaders_the_epoch()
    end_loading_at_exit()
    allow_checkpoint_classes()
    skip_validation_meters_on_resume()
    save_whole_checkpoints()
    explain_checkpoints()
    explain_missing_data()
    check_precision()
    tell_of_collapsed_states()
    silence_known_warnings()


def wrap(owner, name: str):
    """Decorator: puts a function in the place of ``owner.name`` and gives it that as its first argument."""
    original = getattr(owner, name)

    def put(function):
        @wraps(original)
        def wrapper(*args, **kwargs):
            return function(original, *args, **kwargs)

        setattr(owner, name, wrapper)

    return put


def flush_subnormal_numbers() -> None:
    """Subnormal float32 numbers become 0: with them, a matrix product on a CPU takes up to 200 times as long.

    Gradients of sharp attention and of sharp transitions are full of them. Set before PyTorch starts its
    threads, which inherit it.
    """
    torch.set_flush_denormal(True)


def hide_foreign_torchaudio() -> None:
    """fairseq requires torchaudio, but nothing here uses it; transformers imports the one that is installed,
    and fails if it was built for another torch: to this process there is none then."""
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        if importlib.metadata.version("torchaudio").split(".")[:2] != torch.__version__.split(".")[:2]:
            sys.modules.setdefault("torchaudio", None)


def restore_numpy_name() -> None:
    """``np.compat.long``, gone with NumPy 2: --sample-break-mode eos (fairseq.data.token_block_dataset)."""
    if not hasattr(np, "compat"):
        np.compat = argparse.Namespace(long=int)


def keep_last_batch() -> None:
    """fairseq drops the last batch of a split if its size is no multiple of --required-batch-size-multiple
    (8 by default): up to 7 sentences are never trained, validated or tested, a split of fewer is empty."""
    from fairseq.data import data_utils

    @wrap(data_utils, "batch_by_size")
    def batch_by_size(original, indices, *args, **kwargs):
        if len(indices) == 0:
            return []
        batches = original(indices, *args, **kwargs)
        rest = np.asarray(indices)[sum(map(len, batches)) :]
        return [*batches, rest] if len(rest) else batches


def tell_loaders_the_epoch() -> None:
    """fairseq keeps the processes that load batches (--num-workers, 1 by default) from epoch to epoch, with
    the data set as it was in the first: every epoch would have the same masks. They are started anew."""
    from fairseq.data import iterators

    @wrap(iterators.EpochBatchIterator, "__init__")
    def init(original, iterator, *args, **kwargs):
        original(iterator, *args, **kwargs)
        iterator.persistent_workers = False


def end_loading_at_exit() -> None:
    """fairseq prepares batches in a daemon thread. One that is inside of torch when Python ends aborts the
    process: now and then a training that reached --max-update ends with exit status 134."""
    from fairseq.data import iterators

    running = weakref.WeakSet()

    @wrap(iterators.BackgroundConsumer, "run")
    def run(original, consumer):
        running.add(consumer)
        return original(consumer)

    @atexit.register
    def end() -> None:
        for consumer in list(running):
            consumer._max_len = 0  # ends after the batch it is at
            deadline = time.monotonic() + 30  # a disk that no longer answers must not keep us
            while consumer.is_alive() and time.monotonic() < deadline:
                try:
                    consumer._queue.get_nowait()  # it may be waiting for room
                except Empty:
                    consumer.join(0.01)


def allow_checkpoint_classes() -> None:
    """Since torch 2.6 ``torch.load`` takes tensors and plain containers only, and stays so here: these are
    the harmless classes that fairseq's own checkpoints hold besides."""
    from fairseq.distributed.utils import _TensorPlaceholder
    from omegaconf import AnyNode, DictConfig, ListConfig
    from omegaconf.base import ContainerMetadata, Metadata

    # The flags of the model; in older checkpoints, as "args", of the whole run.
    settings = [argparse.Namespace]
    # A score that was computed with NumPy or scikit-learn, such as the best of a run.
    scalar = np.float64(0).__reduce__()[0]
    scores = [scalar, (scalar, "numpy.core.multiarray.scalar"), np.dtype]  # the second as NumPy 1 wrote it
    scores += [type(np.dtype(kind)) for kind in (np.float32, np.float64, np.int64, np.bool_)]
    # A resumed run on several workers: the first reads the file and sends the others what it holds, through
    # torch.save and torch.load, with all flags as OmegaConf has them.
    broadcast = [_TensorPlaceholder, DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata]
    broadcast += [(typing.Any, "typing.Any"), collections.defaultdict, dict, list, int, float, str, bool]
    torch.serialization.add_safe_globals([*settings, *scores, *broadcast])


def skip_validation_meters_on_resume() -> None:
    """Resumes without the meters of past validations, which nothing reads: fairseq cannot make a plugin's,
    and tensors in them are on the CPU where the next validation's may be on the GPU. Starts the stopwatch of
    ``wall``, which stands still otherwise: seconds since this process began to train."""
    from fairseq.logging import metrics

    @wrap(metrics, "load_state_dict")
    def load_state_dict(original, state):
        original({name: meters for name, meters in state.items() if name != "valid"})
        wall = metrics.get_meter("default", "wall")
        if wall is not None:
            wall.start()


def other_flags(state: dict, model) -> list[str]:
    """Flags that a checkpoint's model has otherwise than ``model``, those of a run, and that its weights do
    not show."""
    from fs_plugins.models.flags import EXLM_FLAGS, FUNCTION

    saved = (state.get("cfg") or {}).get("model") or state.get("args")
    differences = []
    for flag in (flag for flag in EXLM_FLAGS if flag.decides == FUNCTION):
        old, new = (getattr(args, flag.name, None) for args in (saved, model))
        if old is not None and new is not None and old != new:
            differences.append(f"{flag.option} {old} in the checkpoint, {new} here")
    return differences


def save_whole_checkpoints() -> None:
    """A checkpoint takes the place of the last one, in its file or in a copy, once it is whole on the disk,
    and older ones go after that. fairseq tries again where it failed, in the middle of the file; where a disk
    was full for a moment only, that left files which nothing reads. Here each of three tries starts anew."""
    from fairseq import checkpoint_utils
    from fairseq.file_io import PathManager

    def save(path: str, write: Callable[[IO], object]) -> bool:
        for tries_left in (2, 1, 0):
            try:
                with files.atomic(path, "wb") as file:
                    write(file)
                return True
            except OSError as error:
                if not tries_left:
                    raise
                logger.warning("%s could not be saved (%s): trying again", path, error)
                time.sleep(PAUSE)

    @wrap(checkpoint_utils, "torch_persistent_save")
    def torch_persistent_save(original, content, path, async_write=False):
        if async_write or not PathManager.supports_rename(path):  # not a file of this machine
            return original(content, path, async_write)
        save(path, partial(torch.save, content))

    @wrap(PathManager, "copy")  # to checkpoint_best.pt, checkpoint_last.pt
    def copy(original, source, target, overwrite=False):
        if not (PathManager.supports_rename(source) and PathManager.supports_rename(target)):
            return original(source, target, overwrite)
        with open(source, "rb") as content:
            return save(target, lambda file: content.seek(0) or shutil.copyfileobj(content, file))


@contextlib.contextmanager
def explained(path):
    """Says what to do about the checkpoint that cannot be read."""
    cut_short = (
        f"{path} is cut short, or no checkpoint: if a run was stopped while it wrote it, resume from the "
        "newest other one with --restore-file"
    )
    try:
        yield
    except pickle.UnpicklingError as error:
        if "Unsupported operand" in str(error) and not zipfile.is_zipfile(path):  # such as a text file
            raise RuntimeError(cut_short) from error
        refused = re.search(r"GLOBAL (\S+)", str(error))
        found = f" ({refused[1]})" if refused else ""
        raise pickle.UnpicklingError(
            f"{path} holds Python objects{found} that fairseq's own checkpoints do not; reading them can "
            "run any code. If you trust the file, read it once with "
            'torch.load(..., weights_only=False) and torch.save its "model" and "args" or "cfg" anew'
        ) from error
    except (OSError, RuntimeError, EOFError) as error:
        if not os.path.isfile(path) or zipfile.is_zipfile(path):
            raise
        raise RuntimeError(cut_short) from error


def explain_checkpoints() -> None:
    """Says what to do about a checkpoint that cannot be read; stops where --restore-file does not exist, and
    warns where a checkpoint is loaded into a model with other flags."""
    from fairseq import checkpoint_utils
    from fairseq.file_io import PathManager

    runs = []  # flags of the model that a checkpoint is being loaded into

    @wrap(checkpoint_utils, "load_checkpoint_to_cpu")
    def load_checkpoint_to_cpu(original, path, *args, **kwargs):
        with explained(path):
            state = original(path, *args, **kwargs)
        if differences := other_flags(state, runs[-1]) if runs else []:
            logger.warning("%s was another model: %s", path, "; ".join(differences))
        return state

    @wrap(checkpoint_utils, "load_checkpoint")
    def load_checkpoint(original, cfg, trainer, *args, **kwargs):
        path, folder = cfg.restore_file, os.path.abspath(cfg.save_dir or "")
        # In the run's own folder it need not exist yet: the same command starts and resumes a run.
        own = cfg.save_dir and os.path.dirname(os.path.abspath(path)) == folder
        asked = path != "checkpoint_last.pt" and not trainer.checkpoint_suffix
        if asked and not own and not PathManager.isfile(path):  # fairseq would train from scratch
            raise FileNotFoundError(f"--restore-file {path}: there is no such file")
        runs.append(trainer.cfg.model)
        try:
            return original(cfg, trainer, *args, **kwargs)
        finally:
            runs.pop()


def explain_missing_data() -> None:
    """Says what to do about a split that is missing or empty ("cannot mmap an empty file", says fairseq)."""
    from fairseq.data import data_utils
    from fairseq.tasks.masked_lm import MaskedLMTask
    from fairseq.tasks.sentence_prediction import SentencePredictionTask

    def way_out(split: str) -> str:
        flag = f"--{split}pref" if split in ("train", "valid", "test") else "--validpref"
        make = f"fairseq-preprocess --only-source {flag} TEXT --srcdict DATA/dict.txt --destdir DATA makes it"
        return make if split == "train" else f"{make}; --disable-validation and --valid-subset do without"

    @wrap(data_utils, "load_indexed_dataset")
    def load_indexed_dataset(original, path, *args, **kwargs):
        if os.path.isfile(f"{path}.bin") and os.path.getsize(f"{path}.bin") == 0:
            split = os.path.basename(path)
            raise ValueError(f"the split {split!r} is empty ({path}.bin): {way_out(split)}")
        return original(path, *args, **kwargs)

    def load_dataset(original, task, split, *args, **kwargs):
        try:
            return original(task, split, *args, **kwargs)
        except (FileNotFoundError, AssertionError) as error:
            if "dataset" not in str(error).lower():
                raise
            raise FileNotFoundError(f"there is no split {split!r} ({error}): {way_out(split)}") from error

    wrap(MaskedLMTask, "load_dataset")(load_dataset)
    wrap(SentencePredictionTask, "load_dataset")(load_dataset)


def check_precision() -> None:
    """``--bf16`` means a TPU to fairseq, here a GPU or CPU too; ``--fp16`` without a GPU is refused."""
    from fairseq import options

    @wrap(options, "parse_args_and_arch")
    def parse_args_and_arch(original, *args, **kwargs):
        parsed = original(*args, **kwargs)
        flags = parsed[0] if isinstance(parsed, tuple) else parsed
        if getattr(flags, "fp16", False) and (getattr(flags, "cpu", False) or not torch.cuda.is_available()):
            raise ValueError("--fp16 needs a GPU: with --cpu, or without one, leave it out or use --bf16")
        if getattr(flags, "bf16", False) and importlib.util.find_spec("torch_xla") is None:
            flags.tpu = False
        return parsed


def tell_of_collapsed_states() -> None:
    """Says at the end of a training that its last validation saw one state of each mask in use."""
    from fairseq import checkpoint_utils

    @wrap(checkpoint_utils, "save_checkpoint")
    def save_checkpoint(original, cfg, trainer, *args, **kwargs):
        original(cfg, trainer, *args, **kwargs)
        most = trainer.cfg.optimization.max_update
        if 0 < most <= trainer.get_num_updates() and trainer.is_data_parallel_master:
            tell = getattr(trainer.get_criterion(), "tell_of_collapse", lambda: None)
            tell()


def silence_known_warnings() -> None:
    """What fairseq's own code, which its users cannot change, sets off on current versions."""
    for message, category, module in (
        # fairseq composes its configuration with the API of Hydra 1.0: a dozen lines at each start
        ("", UserWarning, r"hydra\."),
        (r"\s*'config' is validated against ConfigStore schema", UserWarning, ""),  # module: the caller's
        # torch 2.4 renamed them; in each training step, and with --amp
        (r"`torch\.cuda\.amp\.(autocast|GradScaler)", FutureWarning, r"fairseq\."),
        # fairseq always asks for pinned memory, on a CPU too
        ("'pin_memory' argument is set as true but no accelerator", UserWarning, r"torch\.utils\.data"),
    ):
        warnings.filterwarnings("ignore", message, category, module)
