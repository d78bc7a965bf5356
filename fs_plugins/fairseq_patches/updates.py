"""Updates: as many operators and waits for the GPU as it takes, with the numbers of fairseq's own.

fairseq copies, measures and clears the gradient of each parameter by itself, and asks the GPU for a number
ten times an update. tests/fairseq_patches/test_updates.py counts operators, test_pretended_card.py waits.
"""

import torch
from fairseq import utils
from fairseq.criterions.masked_lm import MaskedLmLoss
from fairseq.optim import FairseqOptimizer
from fairseq.optim.fp16_optimizer import _FP16OptimizerMixin
from fairseq.trainer import Trainer
from torch import Tensor

from fs_plugins.fairseq_patches.wrapping import wrap


def single_precision(optimizer, of: str) -> list[Tensor]:
    """Returns ``of`` ("data" or "grad") of the float32 copy of each parameter of --fp16 or --bf16, in its
    shape; of those that are one flat tensor a device, views."""
    flat = optimizer.fp32_params
    if not optimizer.has_flat_params:
        return [getattr(p, of) for p in flat]
    parts, parameters = {}, optimizer.fp16_params
    for device, of_all in flat.items():
        sizes = [p.numel() for p in parameters if p.device.index == device]
        parts[device] = iter(getattr(of_all, of).split(sizes))
    return [next(parts[p.device.index]).view_as(p) for p in parameters]


@wrap(_FP16OptimizerMixin, "_sync_fp16_grads_to_fp32")
def copy_gradients_at_once(original, optimizer):
    if optimizer._needs_sync:
        pairs = [*zip(single_precision(optimizer, "grad"), optimizer.fp16_params, strict=True)]
        known = [(copy, p.grad) for copy, p in pairs if p.grad is not None]
        if known:
            torch._foreach_copy_(*map(list, zip(*known, strict=True)))
        optimizer._needs_sync = False


@wrap(_FP16OptimizerMixin, "_sync_fp32_params_to_fp16")
def copy_parameters_at_once(original, optimizer):
    torch._foreach_copy_([p.data for p in optimizer.fp16_params], single_precision(optimizer, "data"))


@wrap(_FP16OptimizerMixin, "zero_grad")
def zero_at_once(original, optimizer):
    copies = optimizer.fp32_params
    torch._foreach_zero_([p.grad for p in (copies.values() if optimizer.has_flat_params else copies)])
    for p in optimizer.fp16_params:
        p.grad = None
    optimizer._needs_sync = False
    if optimizer.scaler is not None:
        optimizer._multiply_factor = 1.0 / float(optimizer.scaler.loss_scale)


if not utils.multi_tensor_l2norm_available:  # needs apex
    utils.multi_tensor_l2norm_available = True
    utils.multi_tensor_total_norm = lambda grads: torch.stack(
        [norm.to(grads[0].device) for norm in torch._foreach_norm(grads, 2, torch.float32)]
    ).norm()


@wrap(utils, "clip_grad_norm_")
def read_the_norm_once(original, *args, **kwargs):
    """fairseq asks the GPU up to seven times whether the norm is finite, and more than what."""
    return original(*args, **kwargs).cpu()


@wrap(FairseqOptimizer, "multiply_grads")
def multiply_by_a_number(original, optimizer, c):
    """With --clip-norm the factor is a tensor, of the norm that was read, which fairseq would copy back."""
    return original(optimizer, float(c) if torch.is_tensor(c) and c.device.type == "cpu" else c)


@wrap(MaskedLmLoss, "forward")
def read_the_sample_size_once(original, *args, **kwargs):
    """fairseq asks the GPU some ten times an update for the number of masked tokens, and for the norm that it
    has scaled; here at the end of the forward pass, which it has waited for."""
    loss, sample_size, logging_output = original(*args, **kwargs)
    logging_output["sample_size"] = sample_size = int(sample_size)
    return loss, sample_size, logging_output


@wrap(Trainer, "_reduce_and_log_stats")
def leave_meters_unread(original, trainer, *args, **kwargs):
    """fairseq reads all meters after each update, and needs them every ``--log-interval``. On a TPU it does
    not, and it asks nowhere else in here whether it is on one."""
    trainer.tpu, on_tpu = True, trainer.tpu
    try:
        return original(trainer, *args, **kwargs)
    finally:
        trainer.tpu = on_tpu
