"""Checkpoints as files: fairseq saves whole ones, reads harmless ones, and says what to do about others.

Importing this puts it in place of what fairseq has.
"""

import contextlib
import logging
import os
import pickle
import re
import shutil
import time
import zipfile
from collections.abc import Callable
from functools import partial
from typing import IO

import torch
from fairseq import checkpoint_utils
from fairseq.file_io import PathManager

from fs_plugins import files
from fs_plugins.compat import wrap
from fs_plugins.models.flags import EXLM_FLAGS, FUNCTION

logger = logging.getLogger(__name__)
PAUSE = 2.5  # seconds before a checkpoint that could not be saved is tried again, as in fairseq


def save(path: str, write: Callable[[IO], object]) -> bool:
    """A checkpoint takes the place of the last one, in its file or in a copy, once it is whole on the disk,
    and older ones go after that. fairseq tries again where it failed, in the middle of the file; where a disk
    was full for a moment only, that left files which nothing reads. Here each of three tries starts anew."""
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


def other_flags(state: dict, model) -> list[str]:
    """Flags that a checkpoint's model has otherwise than ``model``, those of a run, and that its weights do
    not show."""
    saved = (state.get("cfg") or {}).get("model") or state.get("args")
    differences = []
    for flag in (flag for flag in EXLM_FLAGS if flag.decides == FUNCTION):
        old, new = (getattr(args, flag.name, None) for args in (saved, model))
        if old is not None and new is not None and old != new:
            differences.append(f"{flag.option} {old} in the checkpoint, {new} here")
    return differences


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
    """Stops where --restore-file does not exist, in any folder but the run's own."""
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
