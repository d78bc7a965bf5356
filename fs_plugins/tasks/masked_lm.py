"""Masked language modelling with a masking probability drawn for each sample, and Repeated MLM (section 3):
each token k times, then masked at rate p."""

from dataclasses import dataclass, field

from fairseq.logging import metrics
from fairseq.tasks import register_task
from fairseq.tasks.masked_lm import MaskedLMConfig, MaskedLMTask

from fs_plugins.data.datasets import RepeatTokensDataset, VariedMaskingDataset, corrupted_tokens
from fs_plugins.model_outputs import totals


@dataclass
class VariedMaskedLMConfig(MaskedLMConfig):
    mask_prob_spread: float = field(
        default=0.0, metadata={"help": "draw p of each sample uniformly from --mask-prob minus to plus this"}
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


@dataclass
class RepeatedMaskedLMConfig(VariedMaskedLMConfig):
    repeat_times: int = field(default=1, metadata={"help": "copies of each token, <s> too (k of the paper)"})


@register_task("repeated_masked_lm", dataclass=RepeatedMaskedLMConfig)
class RepeatedMaskedLMTask(VariedMaskedLMTask):
    """fairseq's ``masked_lm`` on sentences whose every token, ``<s>`` too, stands k times in a row.

    ``--tokens-per-sample`` counts tokens before the repetition, so a sample is up to k times as long. Logged
    besides: ``corrupted``, the proportion of tokens whose k copies are all masked (p^k, appendix C).
    """

    cfg: RepeatedMaskedLMConfig

    def _load_dataset_split(self, split, epoch, combine):
        return RepeatTokensDataset(super()._load_dataset_split(split, epoch, combine), self.cfg.repeat_times)

    def max_positions(self):
        """Returns the most tokens of a sample, with the copies."""
        return self.cfg.tokens_per_sample * self.cfg.repeat_times

    def train_step(self, sample, model, criterion, optimizer, update_num, ignore_grad=False):
        result = super().train_step(sample, model, criterion, optimizer, update_num, ignore_grad)
        return self._with_corruption(sample, result)

    def valid_step(self, sample, model, criterion):
        return self._with_corruption(sample, super().valid_step(sample, model, criterion))

    def _with_corruption(self, sample, result):
        """Adds the counts of corrupted and of all tokens, before the repetition, to the logging output."""
        loss, sample_size, logging_output = result
        k, pad = self.cfg.repeat_times, self.source_dictionary.pad()
        corrupted = corrupted_tokens(sample["target"], k, pad).sum()
        counts = {"corrupted": corrupted, "original_tokens": sample["ntokens"] // k}
        return loss, sample_size, {**logging_output, **counts}

    def reduce_metrics(self, logging_outputs, criterion):
        super().reduce_metrics(logging_outputs, criterion)
        corrupted, tokens = totals(logging_outputs, "corrupted", "original_tokens")
        if tokens > 0:
            metrics.log_scalar("corrupted", corrupted / tokens, tokens, round=5)
