"""What released fairseq (0.12) needs on current Python, NumPy and torch; errors where its own do not help.

Importing this puts it in place of what fairseq has.
"""

import argparse
import atexit
import collections
import gc
import os
import time
import typing
import warnings
import weakref
from functools import wraps
from queue import Empty

import numpy as np
import torch
from fairseq.data import data_utils, iterators
from fairseq.distributed.utils import _TensorPlaceholder, get_global_group
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.tasks.sentence_prediction import SentencePredictionTask
from fairseq.trainer import Trainer
from omegaconf import AnyNode, DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata
from torch import distributed

# Subnormal float32 numbers become 0: with them, a matrix product on a CPU takes up to 200 times as long, and
# gradients of sharp attention and transitions are full of them. PyTorch's threads start later and inherit it.
torch.set_flush_denormal(True)

# Gone with NumPy 2: of --sample-break-mode eos (fairseq.data.token_block_dataset).
if not hasattr(np, "compat"):
    np.compat = argparse.Namespace(long=int)

# Since torch 2.6 ``torch.load`` takes tensors and plain containers only, and stays so here: these are the
# harmless classes that fairseq's own checkpoints hold besides.
# The flags of the model; in older checkpoints, as "args", of the whole run.
SETTINGS = [argparse.Namespace]
# A score that was computed with NumPy or scikit-learn, such as the best of a run.
SCALAR = np.float64(0).__reduce__()[0]
SCORES = [SCALAR, (SCALAR, "numpy.core.multiarray.scalar"), np.dtype]  # the second as NumPy 1 wrote it
SCORES += [type(np.dtype(kind)) for kind in (np.float32, np.float64, np.int64, np.bool_)]
# A resumed run on several workers: the first reads the file and sends the others what it holds, through
# torch.save and torch.load, with all flags as OmegaConf has them.
BROADCAST = [_TensorPlaceholder, DictConfig, ListConfig, AnyNode, ContainerMetadata, Metadata]
BROADCAST += [(typing.Any, "typing.Any"), collections.defaultdict, dict, list, int, float, str, bool]
torch.serialization.add_safe_globals([*SETTINGS, *SCORES, *BROADCAST])


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


silence_known_warnings()


def wrap(owner, name: str):
    """Decorator: puts a function in the place of ``owner.name`` and gives it that as its first argument."""
    original = getattr(owner, name)

    def put(function):
        @wraps(original)
        def wrapper(*args, **kwargs):
            return function(original, *args, **kwargs)

        setattr(owner, name, wrapper)
        return function

    return put


@wrap(data_utils, "batch_by_size")
def keep_last_batch(original, indices, *args, **kwargs):
    """fairseq drops the last batch of a split if its size is no multiple of --required-batch-size-multiple
    (8 by default): up to 7 sentences are never trained, validated or tested, a split of fewer is empty."""
    if len(indices) == 0:
        return []
    batches = original(indices, *args, **kwargs)
    rest = np.asarray(indices)[sum(map(len, batches)) :]
    return [*batches, rest] if len(rest) else batches


@wrap(iterators.EpochBatchIterator, "__init__")
def tell_loaders_the_epoch(original, iterator, *args, **kwargs):
    """fairseq keeps the processes that load batches (--num-workers, 1 by default) from epoch to epoch, with
    the data set as it was in the first: every epoch would have the same masks. They are started anew."""
    original(iterator, *args, **kwargs)
    iterator.persistent_workers = False


consumers = weakref.WeakSet()


@wrap(iterators.BackgroundConsumer, "run")
def keep_consumer(original, consumer):
    consumers.add(consumer)
    return original(consumer)


@atexit.register
def end_threads() -> None:
    """fairseq prepares batches in a daemon thread, and leaves those of gloo (several processes on CPUs). One
    that is inside of torch when Python ends aborts the process: now and then a training that reached
    --max-update ends with exit status 134."""
    for consumer in list(consumers):
        consumer._max_len = 0  # ends after the batch it is at
        deadline = time.monotonic() + 30  # a disk that no longer answers must not keep us
        while consumer.is_alive() and time.monotonic() < deadline:
            try:
                consumer._queue.get_nowait()  # it may be waiting for room
            except Empty:
                consumer.join(0.01)
    if distributed.is_available() and distributed.is_initialized() and distributed.get_backend() == "gloo":
        vars(get_global_group).clear()  # which keeps the group that it made
        distributed.destroy_process_group()
        gc.collect()  # a group that only a trainer holds, which holds itself


@wrap(metrics, "load_state_dict")
def skip_validation_meters_on_resume(original, state):
    """Resumes without the meters of past validations, which nothing reads: fairseq cannot make a plugin's,
    and tensors in them are on the CPU where the next validation's may be on the GPU. Starts the stopwatch of
    ``wall``, which stands still otherwise: seconds since this process began to train."""
    original({name: meters for name, meters in state.items() if name != "valid"})
    wall = metrics.get_meter("default", "wall")
    if wall is not None:
        wall.start()


@wrap(Trainer, "train_step")
def leave_out_stand_ins(original, trainer, samples, *args, **kwargs):
    """At the end of an epoch a worker may have fewer batches than others. Of an update whose last batch is
    missing fairseq takes the gradient of those before, but not their sample size."""
    return original(trainer, [sample for sample in samples if sample] or samples[-1:], *args, **kwargs)


@wrap(AMPOptimizer, "step")
def unscale_once(original, optimizer, *args, **kwargs):
    """With --amp: the scaler knows the inner optimizer, whose gradients the clipping has unscaled already."""
    optimizer.scaler.step(optimizer.optimizer)
    optimizer.scaler.update()


def way_out(split: str) -> str:
    """What to do about a split that is missing or empty."""
    flag = f"--{split}pref" if split in ("train", "valid", "test") else "--validpref"
    make = f"fairseq-preprocess --only-source {flag} TEXT --srcdict DATA/dict.txt --destdir DATA makes it"
    return make if split == "train" else f"{make}; --disable-validation and --valid-subset do without"


@wrap(data_utils, "load_indexed_dataset")
def refuse_empty_split(original, path, *args, **kwargs):
    """fairseq says only that it cannot mmap an empty file."""
    if os.path.isfile(f"{path}.bin") and os.path.getsize(f"{path}.bin") == 0:
        split = os.path.basename(path)
        raise ValueError(f"the split {split!r} is empty ({path}.bin): {way_out(split)}")
    return original(path, *args, **kwargs)


@wrap(MaskedLMTask, "load_dataset")
@wrap(SentencePredictionTask, "load_dataset")
def refuse_missing_split(original, task, split, *args, **kwargs):
    try:
        return original(task, split, *args, **kwargs)
    except (FileNotFoundError, AssertionError) as error:
        if "dataset" not in str(error).lower():
            raise
        raise FileNotFoundError(f"there is no split {split!r} ({error}): {way_out(split)}") from error
