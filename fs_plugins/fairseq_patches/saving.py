"""Checkpoints: saved whole, read without running code, and never trained from scratch instead of from a file.

Importing this puts it in place of what fairseq has.
"""

import argparse
import collections
import os
import typing

import numpy as np
import torch
from fairseq import checkpoint_utils
from fairseq.distributed.utils import _TensorPlaceholder
from fairseq.file_io import PathManager
from omegaconf import AnyNode, DictConfig, ListConfig
from omegaconf.base import ContainerMetadata, Metadata

from fs_plugins import files
from fs_plugins.fairseq_patches.wrapping import wrap

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


@wrap(checkpoint_utils, "torch_persistent_save")
def torch_persistent_save(original, content, path, async_write=False):
    """Saves a checkpoint, which takes the place of the last one once it is whole on the disk. fairseq does
    not wait for the disk, and where writing fails it tries again in the middle of the file."""
    if async_write or not PathManager.supports_rename(path):  # not a file of this machine
        return original(content, path, async_write)
    with files.atomic(path, "wb") as file:
        torch.save(content, file)


@wrap(PathManager, "copy")  # copies to checkpoint_best.pt, checkpoint_last.pt
def copy(original, source, target, overwrite=False):
    if not (PathManager.supports_rename(source) and PathManager.supports_rename(target)):
        return original(source, target, overwrite)
    files.copy(source, target)
    return True


@wrap(checkpoint_utils, "load_checkpoint")
def load_checkpoint(original, cfg, trainer, *args, **kwargs):
    """Stops if the checkpoint to start from is not a file: fairseq would train from scratch."""
    start, folder = cfg.finetune_from_model, os.path.abspath(cfg.save_dir or "")
    once = getattr(cfg, "continue_once", None)  # settings of a caller's own may lack it
    resumes = cfg.restore_file == "checkpoint_last.pt"
    restored = cfg.restore_file.replace(".pt", f"{trainer.checkpoint_suffix}.pt")
    # A checkpoint in the run's own folder need not exist yet: one command starts and resumes a run. Once
    # there is a run, a mistyped name would train anew over it.
    in_folder = cfg.save_dir and os.path.dirname(os.path.abspath(restored)) == folder
    has_run = PathManager.exists(os.path.join(folder, f"checkpoint_last{trainer.checkpoint_suffix}.pt"))
    first = resumes and not has_run
    for option, path, needed in (
        ("--restore-file", restored, not resumes and (has_run or not in_folder)),
        ("--finetune-from-model", start, start is not None and (first or not resumes)),
        ("--continue-once", once, once is not None and first),
    ):
        if needed and not PathManager.isfile(path):
            raise FileNotFoundError(f"{option} {path} is not a file: give a checkpoint_*.pt")
    return original(cfg, trainer, *args, **kwargs)
