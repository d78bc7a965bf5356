"""A run in several calls: --patience is counted over all of them, the hours of --stop-time-hours in each, and
a run that has come to its end stays as it is.

SAVE/unfinished is there if --stop-time-hours ended the last call. Importing this puts it in place of what
fairseq has.
"""

import logging
import sys
from argparse import Namespace
from pathlib import Path

from fairseq import checkpoint_utils
from fairseq.trainer import Trainer

from fs_plugins.fairseq_patches.wrapping import wrap
from fs_plugins.files import UNFINISHED

logger = logging.getLogger(__name__)


def early_stop() -> dict:
    """Returns fairseq's counters for --patience, which are attributes of a function of its main module."""
    modules = (sys.modules.get(name) for name in ("__main__", "fairseq_cli.train"))
    found = (getattr(module, "should_stop_early", None) for module in modules)
    return vars(next(filter(None, found), Namespace()))


def at_end(trainer) -> bool:
    """Returns whether --max-update or --patience has ended the run."""
    updates, patience = trainer.cfg.optimization.max_update, trainer.cfg.checkpoint.patience
    stopped = 0 < patience <= early_stop().get("num_runs", 0)
    return 0 < updates <= trainer.get_num_updates() or stopped


@wrap(Trainer, "save_checkpoint")
def keep_patience(original, trainer, path, extra_state):
    return original(trainer, path, {**extra_state, "patience": {**early_stop()}})


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
    """Ends a run that has ended before, of which fairseq would train one update more. Raises ValueError if it
    cannot go on."""
    loaded = original(cfg, trainer, *args, **kwargs)
    if not isinstance(trainer, Trainer):  # a stand-in, as in tests
        return loaded
    Path(cfg.save_dir, UNFINISHED).unlink(missing_ok=True)
    if at_end(trainer):
        logger.info("ended after %d updates: nothing to train", trainer.get_num_updates())
        trainer.cfg.optimization.max_epoch = -1
    elif path := trainer.without_optimizer:
        raise ValueError(
            f"{path} has no optimizer state, as after a finished run of the workflow, or with "
            "--no-save-optimizer-state: start a new run from its weights, with --finetune-from-model and "
            "another folder"
        )
    return loaded


@wrap(Trainer, "cumulative_training_time")
def note_the_limit_of_time(original, trainer):
    """fairseq asks after each update, and ends if it is too much."""
    seconds, saving = original(trainer), trainer.cfg.checkpoint
    over = 0 < 3600 * trainer.cfg.optimization.stop_time_hours < seconds and not at_end(trainer)
    if over and trainer.is_data_parallel_master and not saving.no_save:
        Path(saving.save_dir, UNFINISHED).touch()
    return seconds
