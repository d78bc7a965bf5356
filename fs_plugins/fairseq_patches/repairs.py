"""Repairs: what released fairseq (0.12) computes wrongly or cannot run on current Python, NumPy, PyTorch.

Importing this puts it in place of what fairseq has.
"""

import argparse
import atexit
import gc
import importlib.util
import logging
import time
import weakref
from queue import Empty

import numpy as np
import torch
from fairseq import options
from fairseq.data import data_utils, iterators
from fairseq.distributed.utils import get_global_group
from fairseq.logging import metrics
from fairseq.optim.amp_optimizer import AMPOptimizer
from fairseq.tasks.masked_lm import MaskedLMTask
from fairseq.trainer import Trainer
from torch import distributed

from fs_plugins.data.datasets import ChosenDataset
from fs_plugins.fairseq_patches.wrapping import wrap

logger = logging.getLogger(__name__)

# Subnormal float32 numbers become 0: with them, a matrix product on a CPU takes up to 200 times as long, and
# gradients of sharp attention and transitions are full of them. PyTorch's threads start later and inherit it.
torch.set_flush_denormal(True)

# NumPy 2 lacks it; --sample-break-mode eos needs it (fairseq.data.token_block_dataset).
if not hasattr(np, "compat"):
    np.compat = argparse.Namespace(long=int)


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


@wrap(iterators.EpochBatchIterator, "state_dict")
def note_the_batches_of_all_workers(original, iterator):
    """fairseq notes how many batches of an epoch one worker has seen. Here also how many all of them have, in
    the epoch's order, and how many there are: resumed on another number of workers, a run would repeat some
    of them, or skip some."""
    state, count = original(iterator), len(iterator.frozen_batches)
    epoch, start, first = getattr(iterator, "resumed", (None, 0, 0))
    if state["epoch"] != epoch:
        start = first = 0
    position = state["iterations_in_epoch"]
    seen = min(start + (position - first) * iterator.num_shards, count) if position else 0
    return {**state, "seen_batches": seen, "batches": count}


@wrap(iterators.EpochBatchIterator, "load_state_dict")
def resume_after_the_batches_of_all_workers(original, iterator, state):
    position, shards = state.get("iterations_in_epoch", 0), iterator.num_shards
    seen, count = state.get("seen_batches", position * shards), len(iterator.frozen_batches)
    if position and state.get("batches", count) != count:  # as by another --max-tokens
        before = state["batches"]
        text = "an epoch had %d batches, and has %d: some samples are repeated, others skipped"
        logger.warning(text, before, count)
        seen = seen * count // before
    if seen != position * shards and not iterator.grouped_shuffling:
        position = -(-seen // shards)
        iterator.resumed = state["epoch"], seen, position
    original(iterator, {**state, "iterations_in_epoch": position})


@wrap(iterators.EpochBatchIterator, "ordered_batches")
def divide_what_is_left(original, iterator, epoch, *args):
    """Divides the batches of a resumed epoch that were not seen among the workers that there are now."""
    resumed, seen, position = getattr(iterator, "resumed", (None, 0, 0))
    if epoch != resumed:
        return original(iterator, epoch, *args)
    shards = iterator.num_shards, iterator.shard_id
    iterator.num_shards, iterator.shard_id = 1, 0
    try:
        batches = original(iterator, epoch, *args)
    finally:
        iterator.num_shards, iterator.shard_id = shards
    return [[]] * position + list(iterators.ShardedIterator(batches[seen:], *shards, fill_value=[]))


@wrap(Trainer, "get_valid_iterator")
def validate_the_same_batches(original, trainer, *args, **kwargs):
    """fairseq ends a validation when one worker has seen more than ``--max-valid-steps`` batches: several
    workers see other samples than one, and all see the shortest. Here they see the same, of all lengths."""
    iterator, most = original(trainer, *args, **kwargs), trainer.cfg.dataset.max_valid_steps
    is_limited = isinstance(most, int) and isinstance(iterator, iterators.EpochBatchIterator)
    if is_limited and len(batches := iterator.frozen_batches) > most + 1:
        size, order = max(map(len, batches)), np.concatenate(batches)  # by length
        if len(batches) <= len(order) // size + 2:  # so many sentences each, but for the last ones
            count = min(size * (most + 1), len(order))
            chosen = order[np.arange(count) * len(order) // count]
            iterator._frozen_batches = [chosen[i : i + size] for i in range(0, count, size)]
        else:  # so many tokens each
            iterator._frozen_batches = [batches[i * len(batches) // (most + 1)] for i in range(most + 1)]
    return iterator


@wrap(MaskedLMTask, "_load_dataset_split")
def leave_out_empty_sentences(original, task, split, *args, **kwargs):
    """Between documents, prepared text has an empty sentence, and so has that of fairseq-preprocess for each
    empty line. With ``--sample-break-mode eos`` it would be a sample in which nothing can be masked."""
    dataset = original(task, split, *args, **kwargs)
    if str(task.cfg.sample_break_mode) != "eos":
        return dataset
    whole = np.flatnonzero(np.asarray(dataset.sizes) > 2)  # <s> and </s>
    if empty := len(dataset) - len(whole):
        logger.info("%s: %d of %d sentences are empty, and no samples", split, empty, len(dataset))
    return ChosenDataset(dataset, whole)


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
        vars(get_global_group).clear()  # it keeps the group that it made
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


@wrap(options, "parse_args_and_arch")
def bfloat16_is_not_for_tpus_only(original, *args, **kwargs):
    """fairseq assumes that ``--bf16`` implies a TPU; allow GPUs and CPUs."""
    parsed = original(*args, **kwargs)
    flags = parsed[0] if isinstance(parsed, tuple) else parsed
    if getattr(flags, "bf16", False) and importlib.util.find_spec("torch_xla") is None:
        flags.tpu = False
    return parsed
