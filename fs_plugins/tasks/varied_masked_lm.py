"""Masked language modelling with a masking probability drawn for each sample."""

from dataclasses import dataclass, field

from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fs_plugins.data.datasets import VariedMaskingDataset


@dataclass
class VariedMaskedLMConfig(MaskedLMConfig):
    mask_prob_spread: float = field(
        default=0.0,
        metadata={"help": "draw p of each sample uniformly from --mask-prob minus to plus this"},
    )


@register_task("varied_masked_lm", dataclass=VariedMaskedLMConfig)
class VariedMaskedLMTask(MaskedLMTask):
    """fairseq's ``masked_lm`` with p drawn for each sample: ``--mask-prob 0.51 --mask-prob-spread 0.49`` are
    2% to 100%. Not in the paper. Raises ValueError for a p below 0 or above 1."""

    cfg: VariedMaskedLMConfig

    def __init__(self, cfg, dictionary=None):
        most = min(cfg.mask_prob, 1 - cfg.mask_prob)
        if not 0 <= cfg.mask_prob_spread <= most + 1e-9:
            raise ValueError(
                f"--mask-prob-spread {cfg.mask_prob_spread:g}: give 0 to {most:g}, the distance of "
                f"--mask-prob {cfg.mask_prob:g} from 0 or 1"
            )
        super().__init__(cfg, dictionary)

    def _regular_dataset(self, src_dataset, target_dataset):
        """Returns the batches of a split, given its inputs and its padded targets, each in a cache."""
        if self.cfg.mask_prob_spread > 0:
            for cache in (src_dataset, target_dataset.dataset):
                cache.dataset = VariedMaskingDataset(cache.dataset, self.cfg.mask_prob_spread)
        return super()._regular_dataset(src_dataset, target_dataset)
