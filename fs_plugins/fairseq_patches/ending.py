"""How a training ends: its last state is saved whatever ends it, and SAVE/ended.json says what did.

    {"by": "--patience", "limit": 3, "updates": 400}    the flag, its value, the updates of the model

There is no such file while a training is at work, and after one that was killed. Resumed with the same flags,
a training that has ended stays as it is; but --stop-time-hours counts the hours of each call.

Importing this puts it in place of what fairseq has.
"""

import logging
import sys
from argparse import Namespace
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from fs_plugins.fairseq_patches.wrapping import wrap
from fs_plugins.files import ENDED, write_json

logger = logging.getLogger(__name__)
TIME = "--stop-time-hours"


def early_stop() -> dict:
    """Returns fairseq's counters for --patience, which are attributes of a function of its main module."""
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))
    found = (getattr(module, "should_stop_early", None) for module in modules)
    return vars(next(filter(None, found), Namespace()))


def end_of(trainer, iterator, resumed: bool = False) -> dict | None:
    """Returns the content of ended.json if a training ends here; None if it goes on. ``resumed``: before the
    first update of a call, else after one."""
    flags, patience = trainer.cfg.optimization, trainer.cfg.checkpoint.patience
    updates, hours = trainer.get_num_updates(), trainer.cumulative_training_time() / 3600
    limits = {
        "--max-update": (flags.max_update, 0 < flags.max_update <= updates),
        "--patience": (patience, 0 < patience <= early_stop().get("num_runs", 0)),
        "--max-epoch": (flags.max_epoch, 0 < flags.max_epoch < iterator.next_epoch_idx),
        "--stop-min-lr": (flags.stop_min_lr, trainer.get_lr() <= flags.stop_min_lr),
        TIME: (flags.stop_time_hours, 0 < flags.stop_time_hours < hours and not resumed),
    }
    if iterator.next_epoch_idx == iterator.epoch and not resumed:
        del limits["--stop-min-lr"]  # fairseq looks at it between epochs
    by = next((flag for flag, (_, reached) in limits.items() if reached), None)
    return by and {"by": by, "limit": limits[by][0], "updates": updates}


def note(trainer, ended: dict | None) -> None:
    """Writes ended.json, or removes it if the training goes on."""
    cfg = trainer.cfg.checkpoint
    if trainer.is_data_parallel_master and not cfg.no_save:
        path = Path(cfg.save_dir, ENDED)
        write_json(path, ended) if ended else path.unlink(missing_ok=True)


@wrap(Trainer, "load_checkpoint")
def restore(original, trainer, path, reset_optimizer=False, *args, **kwargs):
    """Restores the count of --patience, which fairseq forgets, and the updates, which it forgets without the
    optimizer's state: it would begin a new warm-up, unsaid."""
    extra_state = original(trainer, path, reset_optimizer, *args, **kwargs)
    trainer._previous_training_time, trainer.without_optimizer = 0, None
    early_stop().clear()
    if extra_state is not None and not reset_optimizer:
        early_stop().update(extra_state.get("patience", {}))
        updates = trainer._optim_history[-1]["num_updates"]
        if trainer.get_num_updates() < updates:
            trainer.without_optimizer = path
            trainer.set_num_updates(updates)
    return extra_state


@wrap(checkpoint_utils, "load_checkpoint")
def end_at_once(original, cfg, trainer, *args, **kwargs):
    """Ends a training that has ended before; fairseq would train one update more. Raises ValueError if one
    cannot go on."""
    extra_state, iterator = original(cfg, trainer, *args, **kwargs)
    if not isinstance(trainer, Trainer):  # a stand-in, as in tests
        return extra_state, iterator
    if ended := end_of(trainer, iterator, resumed=True):
        logger.info("ended by %s after %d updates: nothing to train", ended["by"], ended["updates"])
        note(trainer, ended)
        trainer.cfg.optimization.max_epoch = -1
    elif path := trainer.without_optimizer:
        raise ValueError(
            f"{path} has no optimizer state, as after a finished run of the workflow, or with "
            "--no-save-optimizer-state: start a new run from its weights, with --finetune-from-model and "
            "another folder, or begin a new warm-up here, with --reset-optimizer"
        )
    return extra_state, iterator


@wrap(Trainer, "begin_epoch")
def go_on(original, trainer, epoch):
    note(trainer, None)
    return original(trainer, epoch)


@wrap(Trainer, "cumulative_training_time")
def end_without_validation(original, trainer):
    """A limit of time ends a training between two validations: one there, as fairseq does at each end, would
    be counted for --patience and the best checkpoint, which would depend on the limit."""
    seconds, data, saving = original(trainer), trainer.cfg.dataset, trainer.cfg.checkpoint
    iterator, updates = getattr(trainer, "iterator", None), trainer.get_num_updates()
    if iterator is None or not 0 < 3600 * trainer.cfg.optimization.stop_time_hours < seconds:
        return seconds
    over = iterator.next_epoch_idx > iterator.epoch
    due = over and iterator.epoch % data.validate_interval == 0
    for interval in (data.validate_interval_updates, 0 if over else saving.save_interval_updates):
        due |= interval > 0 and updates % interval == 0
    trainer.validates = getattr(trainer, "validates", not data.disable_validation)
    data.disable_validation = not (
        trainer.validates and (due or updates == trainer.cfg.optimization.max_update)
    )
    return seconds


class _Within:
    """An epoch that has not ended."""

    def __init__(self, iterator):
        self.iterator = iterator

    def __getattr__(self, name):
        return getattr(self.iterator, name)

    def end_of_epoch(self) -> bool:
        return False


@wrap(checkpoint_utils, "save_checkpoint")
def save(original, cfg, trainer, iterator, loss):
    """Keeps the checkpoint of an interval where an epoch ends, too; fairseq keeps those within."""
    interval, ends = cfg.save_interval_updates, iterator.end_of_epoch()
    kept = ends and interval > 0 and trainer.get_num_updates() % interval == 0
    of_epoch = ends and not cfg.no_epoch_checkpoints and iterator.epoch % cfg.save_interval == 0
    saved = original(cfg, trainer, iterator, loss) if of_epoch or not kept else None
    saved = original(cfg, trainer, _Within(iterator), loss) if kept else saved
    trainer.saved = trainer.get_num_updates()
    if isinstance(trainer, Trainer) and (ended := end_of(trainer, iterator)):
        note(trainer, ended)
    return saved


@wrap(Trainer, "save_checkpoint")
def keep_patience(original, trainer, path, extra_state):
    return original(trainer, path, {**extra_state, "patience": {**early_stop()}})


@wrap(Trainer, "get_train_iterator")
def save_the_end(original, trainer, *args, **kwargs):
    """Saves what --max-epoch or --stop-min-lr ends, which fairseq does not."""
    before = getattr(trainer, "iterator", None)
    if before is not None and (ended := end_of(trainer, before)):
        if getattr(trainer, "saved", None) != ended["updates"]:
            checkpoint_utils.save_checkpoint(trainer.cfg.checkpoint, trainer, before, None)
        note(trainer, ended)
    trainer.iterator = original(trainer, *args, **kwargs)
    return trainer.iterator
