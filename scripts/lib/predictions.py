"""What a fine-tuned model says of whole splits, in full precision."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from fairseq import checkpoint_utils, utils
from omegaconf import open_dict

import fs_plugins  # noqa: F401  (models, tasks, and what torch.load may load)
from fs_plugins.checkpoint import choose_device, read_state
from lib.command_line import UserError

SENTENCES = 64  # of a batch


def load_finetuned(checkpoint: Path, data: Path, device: str | None):
    """The model of a fine-tuning, in full precision, its flags by group, and its task on the data.

    Raises:
        FileNotFoundError: if there is no such file.
        UserError, ValueError: if it is no checkpoint, or does not fit the data.
    """
    state, cfg = read_state(checkpoint)
    with open_dict(cfg):
        cfg.task.data = str(data)
    state |= {"args": None, "cfg": cfg}
    try:
        [model], _, task = checkpoint_utils.load_model_ensemble_and_task([str(checkpoint)], state=state)
    except RuntimeError as error:
        raise UserError(f"{checkpoint} does not fit {data}: {error}") from error
    return model.to(choose_device(device)).float().eval(), cfg, task


@torch.no_grad()
def head_outputs(model, cfg, task, split: str) -> np.ndarray:
    """[rows, outputs] float64 of the classification head.

    Raises:
        UserError: if an output is not finite.
    """
    task.load_dataset(split)
    batches = task.get_batch_iterator(task.dataset(split), max_sentences=SENTENCES, num_workers=0)
    head, found = cfg.criterion.classification_head_name, {}
    device = next(model.parameters()).device
    for batch in batches.next_epoch_itr(shuffle=False):
        batch = utils.move_to_cuda(batch, device) if device.type == "cuda" else batch
        output, _ = model(**batch["net_input"], features_only=True, classification_head_name=head)
        found |= zip(batch["id"].tolist(), output.double().cpu().numpy(), strict=True)
    outputs = np.stack([found[row] for row in range(len(found))])
    if broken := int((~np.isfinite(outputs)).any(1).sum()):
        raise UserError(
            f"the model gives {broken} of the {len(outputs)} rows of the {split} set no finite output: its "
            "training diverged, give it a lower --lr"
        )
    return outputs
