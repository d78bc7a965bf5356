"""``--optimizer fused_adamw``: PyTorch's fused AdamW, for CPUs and for GPUs without apex.

fairseq's ``adam`` is fused only if apex is installed; without it, each parameter takes some ten operations.
"""

from ast import literal_eval
from dataclasses import dataclass, field

import torch
from fairseq.dataclass import FairseqDataclass
from fairseq.optim import FairseqOptimizer, register_optimizer
from omegaconf import II


@dataclass
class FusedAdamWConfig(FairseqDataclass):
    adam_betas: str = field(default="(0.9, 0.999)", metadata={"help": "decay rates of the two moments"})
    adam_eps: float = field(default=1e-8, metadata={"help": "term added to the denominator"})
    weight_decay: float = field(default=0.0, metadata={"help": "decoupled weight decay"})
    lr: list[float] = II("optimization.lr")


@register_optimizer("fused_adamw", dataclass=FusedAdamWConfig)
class FusedAdamW(FairseqOptimizer):
    """The updates of fairseq's ``adam``, but for where epsilon enters: it is added to the bias-corrected
    root, as in the paper of Adam; fairseq adds it before the correction.
    """

    def __init__(self, cfg: FusedAdamWConfig, params):
        super().__init__(cfg)
        self._optimizer = torch.optim.AdamW(params, fused=True, **self.optimizer_config)

    @property
    def optimizer_config(self) -> dict:
        """The settings that replace those in a checkpoint."""
        first, second = map(float, literal_eval(self.cfg.adam_betas))
        lr, eps = self.cfg.lr[0], self.cfg.adam_eps
        return {"lr": lr, "betas": (first, second), "eps": eps, "weight_decay": self.cfg.weight_decay}

    @property
    def supports_flat_params(self) -> bool:
        return True
